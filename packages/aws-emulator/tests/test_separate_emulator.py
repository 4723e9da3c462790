"""The package works as an account without the project, as its README says."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import aws_emulator

FOLDER = Path(aws_emulator.__file__).parent
# Python imports this module at every start. With it no process of the account can import the rest of the project.
SITE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "marless":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
"""
TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Resources:
  Notes:
    Type: AWS::S3::Bucket
  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: "2012-10-17"
        Statement: {Effect: Allow, Principal: {Service: lambda.amazonaws.com}, Action: "sts:AssumeRole"}
      Policies:
        - PolicyName: notes
          PolicyDocument:
            Version: "2012-10-17"
            Statement:
              - {Effect: Allow, Action: ["logs:CreateLogStream", "logs:PutLogEvents"], Resource: "*"}
              - {Effect: Allow, Action: "s3:PutObject", Resource: !Sub "${Notes.Arn}/*"}
  Writer:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: writer
      Runtime: python3.12
      Handler: writer.handler
      CodeUri: s3://code/writer.zip
      AutoPublishAlias: live
      Role: !GetAtt Role.Arn
      Environment: {Variables: {NOTES: !Ref Notes}}
"""
WRITER = """
import importlib
import os

import boto3


def absent(name):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return True


def handler(event, context):
    boto3.client("s3").put_object(Bucket=os.environ["NOTES"], Key=event["key"], Body=b"written")
    return [os.environ["NOTES"], absent("marless")]
"""
USE = """
import json

def client(service):
    keys = {"aws_access_key_id": where.key, "aws_secret_access_key": where.secret}
    return boto3.client(service, endpoint_url=where.endpoint, region_name=where.region, **keys)

cloudformation.get_waiter("stack_create_complete").wait(StackName="mine", WaiterConfig={"Delay": 0.1})
answer = json.load(client("lambda").invoke(FunctionName="writer:live", Payload='{"key": "one"}')["Payload"])
body = client("s3").get_object(Bucket=answer[0], Key="one")["Body"].read()
print(json.dumps([answer[1], body.decode(), account.__file__]))
running.stop()
"""


def test_standalone_folder_runs_function_that_writes_to_bucket(tmp_path):
    away, use = tmp_path / "away", tmp_path / "use"
    shutil.copytree(FOLDER, away / "aws_emulator", ignore=shutil.ignore_patterns("__pycache__"))
    use.mkdir()
    for folder in (away, use):
        (folder / "sitecustomize.py").write_text(SITE)
    (use / "template.yaml").write_text(TEMPLATE)
    (use / "writer.py").write_text(WRITER)
    (example,) = re.findall(r"```python\n(.*?)```", (FOLDER.parent / "README.md").read_text(), re.DOTALL)
    command = [sys.executable, "-P", "-c", example + USE]
    variables = {**os.environ, "PYTHONPATH": str(away)}
    ended = subprocess.run(command, cwd=use, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    absent, body, module = json.loads(ended.stdout)
    assert absent is True
    assert body == "written"
    assert Path(module) == away / "aws_emulator/account.py"


def test_emulator_imports_only_its_declared_dependencies():
    """Imports inside functions count too."""
    lines = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]["dependencies"]
    distributions = {re.match(r"[\w-]+", line)[0] for line in lines}
    # A package that is imported by another name, the dependencies of moto's server, and names for type checkers.
    modules = {"aws_emulator", "samtranslator", "werkzeug", "yaml", "_typeshed", *distributions}
    imported = set()
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
    assert imported - sys.stdlib_module_names - modules == set()
