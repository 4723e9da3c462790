"""Prices of AWS: one dated price file per region, read into closed, exact values.

Numbers and their sources are in ``prices/aws-<region>.toml``. `bill` applies them to a run's meter.
"""

import tomllib
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

Architecture = Literal["arm", "x86"]
StorageClass = Literal["standard", "express"]

_FOLDER = Path(__file__).parent / "prices"
_PREFIX = "aws-"
USUAL, ELSEWHERE = "us-east-1", "elsewhere"


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the price file. All money is US dollars."""


class ArchitecturePrices(_Table, frozen=True):
    """Price of compute per GB-second, 1 GB being 1,024 MB of a function's memory."""

    gb_second: Decimal


class LambdaPrices(_Table, frozen=True):
    """`mb_per_vcpu`: the memory that buys one whole vCPU."""

    requests_per_million: Decimal
    mb_per_vcpu: int
    arm: ArchitecturePrices
    x86: ArchitecturePrices


class S3ClassPrices(_Table, frozen=True):
    """Requests per thousand. Data per GB of 2^30 bytes, as AWS's worked examples count it."""

    put_per_thousand: Decimal
    get_per_thousand: Decimal
    upload_gb: Decimal
    retrieval_gb: Decimal
    gb_month: Decimal


class S3Prices(_Table, frozen=True):
    """Prices of both storage classes: S3 Standard and S3 Express One Zone."""

    standard: S3ClassPrices
    express: S3ClassPrices


class DynamoDBPrices(_Table, frozen=True):
    """On demand: a write unit is up to 1 KB of an item, a (strongly consistent) read unit up to 4 KB.

    Storage and point-in-time recovery per GB of the table and month.
    """

    write_units_per_million: Decimal
    read_units_per_million: Decimal
    gb_month: Decimal
    recovery_gb_month: Decimal


class CloudWatchPrices(_Table, frozen=True):
    """Logs per GB ingested, and per GB stored and month. An alarm per metric and month. A dashboard per month,
    `dashboards_free` of them free."""

    logs_gb: Decimal
    logs_gb_month: Decimal
    alarm_month: Decimal
    dashboard_month: Decimal
    dashboards_free: int


class RegistryPrices(_Table, frozen=True):
    """Stored container images, per GB and month."""

    gb_month: Decimal


class TransferPrices(_Table, frozen=True):
    """Data that leaves the region for the internet, per GB."""

    out_gb: Decimal


class Prices(_Table, frozen=True):
    """The price list of one region as of `date` (ISO). `ec2`: dollars per hour by instance type, for comparisons."""

    date: str
    region: str
    lambda_: LambdaPrices = msgspec.field(name="lambda")
    s3: S3Prices
    dynamodb: DynamoDBPrices
    cloudwatch: CloudWatchPrices
    ecr: RegistryPrices
    transfer: TransferPrices
    ec2: dict[str, Decimal]

    def gb_second(self, architecture: Architecture) -> Decimal:
        """Price of compute per GB-second."""
        return {"arm": self.lambda_.arm, "x86": self.lambda_.x86}[architecture].gb_second

    def s3_class(self, storage: StorageClass) -> S3ClassPrices:
        """Prices of an S3 class."""
        return {"standard": self.s3.standard, "express": self.s3.express}[storage]


@lru_cache(maxsize=16)
def load_prices(region: str = USUAL) -> Prices:
    """Return the price list of `region`. Raises `ValueError` naming the known regions if there is none."""
    if region not in regions():
        raise ValueError(f"no price file for region {region!r}; known regions: {', '.join(regions())}")
    return msgspec.convert(_tables(region), Prices)


def regions() -> list[str]:
    """The regions with a price list, and `ELSEWHERE`."""
    return sorted(file.stem.removeprefix(_PREFIX) for file in _FOLDER.glob(f"{_PREFIX}*.toml"))


def priced_as(region: str) -> str:
    """Return the region's price list, or the list for all other regions, which overestimates."""
    return region if region in regions() else ELSEWHERE


def _tables(region: str) -> dict[str, Any]:
    text = (_FOLDER / f"{_PREFIX}{region}.toml").read_text(encoding="utf-8")
    # Decimal, not float: a price is the digits that are printed.
    tables = tomllib.loads(text, parse_float=Decimal)
    base = tables.pop("base", None)
    return _merge(_tables(base), tables) if base else tables


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    return base | {
        name: _merge(base[name], value) if isinstance(value, dict) and name in base else value
        for name, value in over.items()
    }
