"""Lists everything in an account, service by service."""

LISTS = {
    "buckets": ("s3", "list_buckets", {}, "Buckets[].Name"),
    "tables": ("dynamodb", "list_tables", {}, "TableNames[]"),
    "queues": ("sqs", "list_queues", {}, "QueueUrls[]"),
    "log groups": ("logs", "describe_log_groups", {}, "logGroups[].logGroupName"),
    "roles": ("iam", "list_roles", {}, "Roles[].RoleName"),
    "policies": ("iam", "list_policies", {"Scope": "Local"}, "Policies[].PolicyName"),
    "functions": ("lambda", "list_functions", {"FunctionVersion": "ALL"}, "Functions[].FunctionArn"),
    "event sources": ("lambda", "list_event_source_mappings", {}, "EventSourceMappings[].UUID"),
    "rules": ("events", "list_rules", {}, "Rules[].Name"),
    "alarms": ("cloudwatch", "describe_alarms", {}, "MetricAlarms[].AlarmName"),
    "dashboards": ("cloudwatch", "list_dashboards", {}, "DashboardEntries[].DashboardName"),
    "budgets": ("budgets", "describe_budgets", {"AccountId": "123456789012"}, "Budgets[].BudgetName"),
    "topics": ("sns", "list_topics", {}, "Topics[].TopicArn"),
    "subscriptions": ("sns", "list_subscriptions", {}, "Subscriptions[].SubscriptionArn"),
    "repositories": ("ecr", "describe_repositories", {}, "repositories[].repositoryName"),
}


def everything(cloud):
    found = {kind: _listed(cloud, *how) for kind, how in LISTS.items()}
    stacks = cloud.client("cloudformation").describe_stacks()["Stacks"]
    found["stacks"] = {stack["StackName"] for stack in stacks}
    found["objects"] = {one for bucket in found["buckets"] for one in objects(cloud, bucket)}
    found["aliases"] = {
        alias["AliasArn"]
        for name in {arn.split(":")[6] for arn in found["functions"]}
        for alias in cloud.client("lambda").list_aliases(FunctionName=name)["Aliases"]
    }
    return {kind: names for kind, names in found.items() if names}


def objects(cloud, bucket):
    client = cloud.client("s3")
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for one in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
            yield bucket, one["Key"], one["VersionId"]
    for upload in client.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        yield bucket, upload["Key"], upload["UploadId"]


def _listed(cloud, service, call, narrowed, names):
    pages = cloud.client(service).get_paginator(call).paginate(**narrowed)
    return {name for name in pages.search(names) if name is not None}
