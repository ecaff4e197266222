"""LocalStack's own DynamoDB provider over a DynamoDB server that runs already.

LocalStack would download and start Amazon's DynamoDB Local to keep tables in. With PROVIDER_OVERRIDE_DYNAMODB=elsewhere
it sends the requests to DYNAMODB_ELSEWHERE_URL instead. Everything in front of that is LocalStack's: the gateway, the
provider (table metadata, ARNs, TTL, tags) and the faults of DYNAMODB_ERROR_PROBABILITY.
"""

import os

from localstack.aws.forwarder import AwsRequestProxy, HttpFallbackDispatcher
from localstack.services.plugins import Service, aws_provider


class Elsewhere:
    """What the provider knows of its server: how to reach it, and to start and stop it, which are not its business here."""

    def __init__(self):
        self.url = os.environ["DYNAMODB_ELSEWHERE_URL"]
        self.proxy = AwsRequestProxy(self.url)

    def start_dynamodb(self):
        return True

    def stop_dynamodb(self):
        pass


@aws_provider(api="dynamodb", name="elsewhere")
def provider():
    # Imported late: LocalStack loads this module to list its plugins, long before a service is wanted.
    from localstack.services.dynamodb.v2.provider import DynamoDBProvider

    class Provider(DynamoDBProvider):
        @staticmethod
        def _new_dynamodb_server():
            return Elsewhere()

    return Service.for_provider(
        Provider(), dispatch_table_factory=lambda p: HttpFallbackDispatcher(p, p.get_forward_url)
    )
