"""The record of a measurement, from which this benchmark and the page of results print one table."""

from benchmarks.comparisons.measurement_record import Record, RecordFile
from benchmarks.table import HEADER, Row

FILE = RecordFile("language", Record[Row], HEADER)
