"""The record of a measurement. This benchmark and the page of results print one table from it."""

from benchmarks.comparisons.measurement_record import Record, RecordFile
from benchmarks.table import HEADER, Row

FILE = RecordFile("language", Record[Row], HEADER)
