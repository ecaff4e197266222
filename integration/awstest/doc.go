// Package awstest answers which Kinesis and which DynamoDB a test talks to: for the tests of programs that use shardlease,
// and for those of shardlease itself.
//
//	func TestAudit(t *testing.T) {
//		env := awstest.Start(t)
//		env.CreateStream(t, "orders", 2)
//		worker, err := shardlease.New(config.Default("orders-audit", "orders"), env.Config, factory)
//		…
//	}
//
// [Start] takes, for each of the two services, the first that is there:
//
//  1. What the environment names: SHARDLEASE_KINESIS_ENDPOINT and SHARDLEASE_DYNAMODB_ENDPOINT, else the SDK's own
//     AWS_ENDPOINT_URL_KINESIS and AWS_ENDPOINT_URL_DYNAMODB, else AWS_ENDPOINT_URL.
//  2. LocalStack in a container, where an engine (Docker, Podman) answers; DynamoDB Local for DynamoDB where that was asked
//     for or where only DynamoDB is wanted. SHARDLEASE_CONTAINERS=0 leaves the engine alone;
//     SHARDLEASE_REQUIRE_CONTAINERS=1 makes it an error that none answers. LOCALSTACK_AUTH_TOKEN is passed on to LocalStack.
//  3. This module's emulator, in the test's own process.
//
// What was taken is in [Environment.Name], and Start logs it. It is never AWS itself: an endpoint of AWS is an error unless
// SHARDLEASE_ALLOW_AWS=1 says that the test may write there, and cost money. Then region and credentials are the SDK's usual ones.
//
// An engine that answers and cannot run the image is an error, and no reason to test something else in silence.
//
// For tests in virtual time (testing/synctest) use the package emulator itself: what listens on a port lives in real time.
//
// Shardlease reads no environment variables; this package does, because it is for tests alone.
package awstest
