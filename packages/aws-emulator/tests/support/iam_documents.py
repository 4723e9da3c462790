"""Documents of IAM policies."""

from typing import Any

from emulated_accounts import ACCOUNT

READER = f"arn:aws:iam::{ACCOUNT}:role/reader"
WRITER = f"arn:aws:iam::{ACCOUNT}:role/writer"
B = "arn:aws:s3:::shelf"


def statement(effect: str, action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": action, "Resource": resource, **more}


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}
