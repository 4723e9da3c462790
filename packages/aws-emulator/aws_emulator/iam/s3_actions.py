"""The service actions of a request to S3. Pure.

Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon S3". Also S3 user guide,
"Required permissions for Amazon S3 API operations" and "Enforce conditional writes on Amazon S3 buckets".
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs, parse_qsl, unquote
from xml.etree import ElementTree

from aws_emulator.iam.management_actions import bucket_actions
from aws_emulator.iam.policies import ServiceAction
from aws_emulator.wsgi import Environ, body

# Path-style requests only: the host must not name a bucket.
_HOST = re.compile(r"(?:localhost|\d+\.\d+\.\d+\.\d+|\[[0-9a-f:]+\])(?::\d+)?")
# Path and query as sent, before decoding. An ambiguous form does not match.
_BUCKET = r"(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])"
_PATH = re.compile(rf"/(?:{_BUCKET}(?:/(?P<key>[^?#]*))?)?(?:\?[^#]*)?")
_COPIED = re.compile(rf"/?{_BUCKET}/(?P<key>[^?#;]+)(?:\?versionId=(?P<version>[\w.-]+))?")

# Query parameters that do not affect the required permissions.
_PLAIN = frozenset({"x-id", "partNumber", "max-parts", "part-number-marker"})
_LISTING = frozenset(
    {
        "list-type",
        "prefix",
        "delimiter",
        "max-keys",
        "continuation-token",
        "start-after",
        "encoding-type",
        "fetch-owner",
    }
    | {"marker", "key-marker", "version-id-marker", "upload-id-marker", "max-uploads", "x-id"}
)
_LISTS = {"": "ListBucket", "versions": "ListBucketVersions", "uploads": "ListBucketMultipartUploads"}
_ON_OBJECT = {
    ("GET", ""): "GetObject",
    ("HEAD", ""): "GetObject",
    ("PUT", ""): "PutObject",
    ("DELETE", ""): "DeleteObject",
    ("GET", "tagging"): "GetObjectTagging",
    ("PUT", "tagging"): "PutObjectTagging",
    ("DELETE", "tagging"): "DeleteObjectTagging",
    ("GET", "uploadId"): "ListMultipartUploadParts",
    ("PUT", "uploadId"): "PutObject",
    ("POST", "uploadId"): "PutObject",
    ("POST", "uploads"): "PutObject",
    ("DELETE", "uploadId"): "AbortMultipartUpload",
}
_OF_VERSION = {
    "GetObject": "GetObjectVersion",
    "DeleteObject": "DeleteObjectVersion",
    "GetObjectTagging": "GetObjectVersionTagging",
    "PutObjectTagging": "PutObjectVersionTagging",
    "DeleteObjectTagging": "DeleteObjectVersionTagging",
}
# Headers that become context keys. A copy's If-None-Match is left out: S3 answers 501 to it (user guide, "Enforce
# conditional writes"), and moto would ignore it.
_HEADERS = {
    "HTTP_X_AMZ_COPY_SOURCE": "s3:x-amz-copy-source",
    "HTTP_X_AMZ_SERVER_SIDE_ENCRYPTION": "s3:x-amz-server-side-encryption",
    "HTTP_X_AMZ_STORAGE_CLASS": "s3:x-amz-storage-class",
    "HTTP_X_AMZ_ACL": "s3:x-amz-acl",
    "HTTP_IF_MATCH": "s3:if-match",
}
# Headers that need further permissions. The program does not send them, so they are refused.
_REFUSED = frozenset(
    {
        "HTTP_X_AMZ_BYPASS_GOVERNANCE_RETENTION",
        *(f"HTTP_X_AMZ_GRANT_{what}" for what in ("FULL_CONTROL", "READ", "READ_ACP", "WRITE", "WRITE_ACP")),
        *(f"HTTP_X_AMZ_OBJECT_LOCK_{what}" for what in ("LEGAL_HOLD", "MODE", "RETAIN_UNTIL_DATE")),
    }
)

Context = Mapping[str, Sequence[str]]


def s3_actions(environ: Environ) -> list[ServiceAction] | None:
    """The service actions of a request, or None."""
    path = _PATH.fullmatch(environ.get("RAW_URI", ""))
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if path is None or not _HOST.fullmatch(environ.get("HTTP_HOST", "")) or _is_form(environ):
        return None
    if any(len(values) > 1 for values in query.values()) or not _REFUSED.isdisjoint(environ):
        return None
    parameters = {name: values[0] for name, values in query.items()}
    bucket, method = path["bucket"], environ["REQUEST_METHOD"]
    if bucket is None:
        return (
            [ServiceAction("s3:ListAllMyBuckets", "*")]
            if method == "GET" and not parameters.keys() - {"x-id"}
            else None
        )
    arn = f"arn:aws:s3:::{bucket}"
    if path["key"]:
        return _on_object(environ, f"{arn}/{unquote(path['key'])}", method, parameters)
    return _on_bucket(environ, arn, method, parameters)


def missing(action: ServiceAction) -> ServiceAction:
    """The action that S3 requires before it reports a missing key: ListBucket with the key as the prefix."""
    bucket, _, key = action.resource.partition("/")
    return ServiceAction("s3:ListBucket", bucket, {"s3:prefix": (key,)})


def _is_form(environ: Environ) -> bool:
    """Return whether the body is a form, because moto would also read the request from it."""
    kind: str = environ.get("CONTENT_TYPE", "")
    return kind.lower().startswith(("multipart/", "application/x-www-form-urlencoded"))


def _on_bucket(environ: Environ, arn: str, method: str, parameters: Mapping[str, str]) -> list[ServiceAction] | None:
    kinds = parameters.keys() - _LISTING
    kind = next(iter(kinds), "")
    if method == "HEAD" and not parameters:
        return [ServiceAction("s3:ListBucket", arn)]
    if method == "POST" and parameters.keys() - {"x-id"} == {"delete"}:
        return _deletions(arn, body(environ))
    if (management := bucket_actions(method, arn, parameters)) is not None:
        return management
    if method != "GET" or len(kinds) > 1:
        return None
    if kind == "location" and len(parameters) == 1:
        return [ServiceAction("s3:GetBucketLocation", arn)]
    if kind not in _LISTS:
        return None
    context = {f"s3:{name}": (parameters[name],) for name in ("prefix", "delimiter", "max-keys") if name in parameters}
    return [ServiceAction(f"s3:{_LISTS[kind]}", arn, context)]


def _deletions(arn: str, text: bytes) -> list[ServiceAction] | None:
    """One action for each key of a DeleteObjects. None for an invalid or empty body."""
    root = _xml(text)
    if root is None or not root.tag.endswith("Delete"):
        return None
    actions = []
    for entry in (child for child in root if child.tag.endswith("Object")):
        fields = {child.tag.rpartition("}")[2]: child.text or "" for child in entry}
        if not fields.get("Key"):
            return None
        action = "DeleteObjectVersion" if "VersionId" in fields else "DeleteObject"
        actions.append(ServiceAction(f"s3:{action}", f"{arn}/{fields['Key']}"))
    return actions or None


def _on_object(environ: Environ, arn: str, method: str, parameters: Mapping[str, str]) -> list[ServiceAction] | None:
    kinds = parameters.keys() - _PLAIN - {"versionId"}
    kind = next(iter(kinds), "")
    action = _ON_OBJECT.get((method, kind))
    # A PUT with uploadId is a part and needs a part number. No other PUT may have one.
    if len(kinds) > 1 or (method == "PUT" and (kind == "uploadId") != ("partNumber" in parameters)):
        return None
    if action is not None and "versionId" in parameters:
        action = _OF_VERSION.get(action)
    if action is None:
        return None
    if action == "PutObject":
        return _creation(environ, arn, whole=kind == "" or (method, kind) == ("POST", "uploadId"))
    tags = _body_tags(body(environ)) if method == "PUT" else {}
    return None if tags is None else [ServiceAction(f"s3:{action}", arn, _tag_context(tags))]


def _creation(environ: Environ, arn: str, whole: bool) -> list[ServiceAction] | None:
    """The actions for writing an object, or with `whole` False for writing a part or starting an upload."""
    tags = _tags(environ.get("HTTP_X_AMZ_TAGGING", ""))
    source = environ.get("HTTP_X_AMZ_COPY_SOURCE")
    source_actions = _source_actions(source) if source is not None else []
    # Whether a copy is conditional on its target's ETag is decided by S3 alone: moto ignores it.
    if tags is None or source_actions is None or (source is not None and "HTTP_IF_MATCH" in environ):
        return None
    context: dict[str, Sequence[str]] = {
        "s3:objectcreationoperation": ("true" if whole else "false",),
        **{key: (environ[header],) for header, key in _HEADERS.items() if header in environ},
        **_tag_context(tags),
    }
    # `*` is the only valid value. Moto ignores any other.
    if environ.get("HTTP_IF_NONE_MATCH") == "*" and source is None:
        context["s3:if-none-match"] = ("*",)
    actions = [ServiceAction("s3:PutObject", arn, context), *source_actions]
    if tags:
        actions.append(ServiceAction("s3:PutObjectTagging", arn, context))
    if "HTTP_X_AMZ_ACL" in environ:
        actions.append(ServiceAction("s3:PutObjectAcl", arn, context))
    return actions


def _source_actions(source: str) -> list[ServiceAction] | None:
    match = _COPIED.fullmatch(source)
    if match is None:
        return None
    action = "GetObjectVersion" if match["version"] else "GetObject"
    return [ServiceAction(f"s3:{action}", f"arn:aws:s3:::{match['bucket']}/{unquote(match['key'])}")]


def _tags(header: str) -> dict[str, str] | None:
    """The tags in the header x-amz-tagging, which has the form of a query string. None if a key is repeated."""
    pairs = parse_qsl(header, keep_blank_values=True)
    return dict(pairs) if len(dict(pairs)) == len(pairs) else None


def _body_tags(text: bytes) -> dict[str, str] | None:
    root = _xml(text)
    if root is None:
        return None
    tags = [{child.tag.rpartition("}")[2]: child.text or "" for child in tag} for tag in root.iter() if _is_tag(tag)]
    return {tag.get("Key", ""): tag.get("Value", "") for tag in tags}


def _is_tag(element: ElementTree.Element) -> bool:
    return element.tag.rpartition("}")[2] == "Tag"


def _tag_context(tags: Mapping[str, str]) -> Context:
    if not tags:
        return {}
    context = {f"s3:requestobjecttag/{name.lower()}": (value,) for name, value in tags.items()}
    return {"s3:requestobjecttagkeys": tuple(tags), **context}


def _xml(text: bytes) -> ElementTree.Element | None:
    # Refuses a document type, which could define entities. No SDK sends one.
    if b"<!" in text:
        return None
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None
