package dynamodb_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator/internal/dynamodb"
)

func status(tb testing.TB, service *dynamodb.DynamoDB, table string) string {
	tb.Helper()
	code, out := raw(tb, service, "DescribeTable", `{"TableName":"`+table+`"}`)
	if code != 200 {
		return fmt.Sprint(out["message"])
	}
	described := out["Table"].(object)
	states := []string{described["TableStatus"].(string)}
	indexes, _ := described["GlobalSecondaryIndexes"].([]any)
	for _, x := range indexes {
		states = append(states, x.(object)["IndexStatus"].(string))
	}
	return strings.Join(states, " ")
}

const addIndex = `{"TableName":"APP","AttributeDefinitions":[{"AttributeName":"leaseOwner","AttributeType":"S"},{"AttributeName":"leaseKey","AttributeType":"S"}],
	"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"owners","KeySchema":[{"AttributeName":"leaseOwner","KeyType":"HASH"},{"AttributeName":"leaseKey","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}}]}`

const ownersQuery = `{"TableName":"APP","IndexName":"owners","KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"w1"}},"Select":"COUNT"}`

func TestTables_passThroughTheirStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &dynamodb.DynamoDB{TableDelay: 10 * time.Second, IndexDelay: time.Minute}
		is := func(want string) {
			t.Helper()
			if got := status(t, service, "APP"); got != want {
				t.Errorf("table is %q, want %q", got, want)
			}
		}
		const busy = "ResourceInUseException: Attempt to change a resource which is still in use: "
		is("Requested resource not found: Table: APP not found")
		must(t, service, "CreateTable", leaseTable)
		is("CREATING")
		expect(t, service, "CreateTable", leaseTable, "ResourceInUseException: Table already exists: APP")
		expect(t, service, "Scan", `{"TableName":"APP"}`, "ResourceNotFoundException: Requested resource not found")
		expect(t, service, "DeleteTable", `{"TableName":"APP"}`, busy+"Table is being created: APP")
		expect(t, service, "UpdateContinuousBackups", `{"TableName":"APP","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`,
			"ContinuousBackupsUnavailableException: Backups are being enabled for the table: APP. Please retry later")
		time.Sleep(10 * time.Second)
		is("ACTIVE")
		must(t, service, "PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"a"},"leaseOwner":{"S":"w1"}}}`)
		must(t, service, "PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"b"}}}`)

		must(t, service, "UpdateTable", addIndex)
		is("UPDATING CREATING")
		expect(t, service, "UpdateTable", addIndex, busy+"Table is being updated: APP")
		must(t, service, "PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"c"},"leaseOwner":{"S":"w1"}}}`) // items can be used meanwhile
		time.Sleep(10 * time.Second)
		is("ACTIVE CREATING")
		expect(t, service, "UpdateTable", `{"TableName":"APP","DeletionProtectionEnabled":true}`, busy+"Index is being created: owners")
		expect(t, service, "Query", ownersQuery, "ValidationException: Cannot read from backfilling global secondary index: owners")
		time.Sleep(50 * time.Second)
		is("ACTIVE ACTIVE")
		expect(t, service, "Query", ownersQuery, `{"Count":2,"ScannedCount":2}`)
		expect(t, service, "UpdateTable", addIndex, "ValidationException: Attempting to create an index which already exists")

		must(t, service, "UpdateTable", `{"TableName":"APP","DeletionProtectionEnabled":true}`)
		time.Sleep(10 * time.Second)
		expect(t, service, "DeleteTable", `{"TableName":"APP"}`, "ValidationException: Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
		must(t, service, "UpdateTable", `{"TableName":"APP","DeletionProtectionEnabled":false}`)
		time.Sleep(10 * time.Second)
		must(t, service, "UpdateTable", `{"TableName":"APP","GlobalSecondaryIndexUpdates":[{"Delete":{"IndexName":"owners"}}]}`)
		is("UPDATING DELETING")
		time.Sleep(time.Minute)
		is("ACTIVE")
		must(t, service, "UpdateTable", addIndex) // its attribute definition went with it, and comes again
		time.Sleep(time.Minute)
		is("ACTIVE ACTIVE")

		must(t, service, "DeleteTable", `{"TableName":"APP"}`)
		is("DELETING ACTIVE")
		expect(t, service, "CreateTable", leaseTable, "ResourceInUseException: Table already exists: APP")
		expect(t, service, "Scan", `{"TableName":"APP"}`, "ResourceNotFoundException: Requested resource not found")
		time.Sleep(10 * time.Second)
		is("Requested resource not found: Table: APP not found")
		must(t, service, "CreateTable", leaseTable)
		time.Sleep(10 * time.Second)
		expect(t, service, "Scan", `{"TableName":"APP"}`, `{"Count":0,"ScannedCount":0,"Items":[]}`)
	})
}

func TestIndexes_lagBehindByTheGivenTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &dynamodb.DynamoDB{IndexLag: time.Second}
		must(t, service, "CreateTable", leaseTable)
		must(t, service, "UpdateTable", addIndex)
		must(t, service, "PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"a"},"leaseOwner":{"S":"w1"}}}`)
		expect(t, service, "Query", ownersQuery, `{"Count":0,"ScannedCount":0}`)
		time.Sleep(time.Second / 2)
		must(t, service, "UpdateItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"UpdateExpression":"SET leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"w2"}}}`)
		time.Sleep(time.Second / 2)
		expect(t, service, "Query", ownersQuery, `{"Count":1,"ScannedCount":1}`) // the first write, not yet the second
		time.Sleep(time.Second / 2)
		expect(t, service, "Query", ownersQuery, `{"Count":0,"ScannedCount":0}`)
	})
}

func TestCreateTable_refusesFaultyDefinitions(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	const v = "ValidationException: "
	const bad = v + "One or more parameter values were invalid: "
	replaced := func(old, with string) string {
		return strings.Replace(strings.Replace(leaseTable, `"APP"`, `"NEW"`, 1), old, with, 1)
	}
	for _, c := range []struct{ body, want string }{
		{replaced(`"BillingMode":"PAY_PER_REQUEST",`, ``), v + "No provisioned throughput specified for the table"},
		{replaced(`"BillingMode":"PAY_PER_REQUEST"`, `"BillingMode":"PAY_PER_REQUEST","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}`), bad + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"},
		{replaced(`"BillingMode":"PAY_PER_REQUEST"`, `"ProvisionedThroughput":{"ReadCapacityUnits":0,"WriteCapacityUnits":1}`), v + "1 validation error detected: Value '0' at 'readCapacityUnits' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		{replaced(`"NEW"`, `"x y"`), v + "1 validation error detected: Value 'x y' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
		{replaced(`"NEW"`, `"x"`), v + "TableName must be at least 3 characters long and at most 255 characters long"},
		{replaced(`"AttributeName":"leaseKey","KeyType"`, `"AttributeName":"other","KeyType"`), bad + "Some index key attributes are not defined in AttributeDefinitions. Keys: [other], AttributeDefinitions: [leaseKey]"},
		{replaced(`"AttributeDefinitions":[`, `"AttributeDefinitions":[{"AttributeName":"z","AttributeType":"S"},`), bad + "Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions: Some AttributeDefinitions are not used. AttributeDefinitions: [leaseKey, z], keys used: [leaseKey]"},
		{replaced(`"HASH"`, `"RANGE"`), v + "Invalid KeySchema: The first KeySchemaElement is not a HASH key type"},
		{replaced(`"AttributeType":"S"`, `"AttributeType":"BOOL"`), v + "1 validation error detected: Value 'BOOL' at 'attributeType' failed to satisfy constraint: Member must satisfy enum value set: [S, N, B]"},
		{replaced(`"TableName"`, `"LocalSecondaryIndexes":[],"TableClass":"STANDARD","TableName"`), v + "CreateTable: the emulator does not know the parameter LocalSecondaryIndexes, TableClass"},
		{replaced(`"TableName"`, `"StreamSpecification":{"StreamEnabled":true},"TableName"`), v + "One or more parameter values were invalid: StreamViewType must be specified when StreamEnabled is true"},
		{replaced(`"TableName"`, `"StreamSpecification":{"StreamEnabled":false,"StreamViewType":"NEW_IMAGE"},"TableName"`), v + "One or more parameter values were invalid: StreamViewType must not be specified when StreamEnabled is false"},
		{replaced(`"TableName"`, `"StreamSpecification":{},"TableName"`), v + "1 validation error detected: Value null at 'streamSpecification.streamEnabled' failed to satisfy constraint: Member must not be null"},
		{replaced(`"TableName"`, `"GlobalSecondaryIndexes":[{"IndexName":"idx","KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}]}],"TableName"`), bad + "Unknown ProjectionType: null"},
	} {
		expect(t, service, "CreateTable", c.body, c.want)
	}
	expect(t, service, "ListTables", `{}`, `{"TableNames":["APP"]}`)
	expect(t, service, "UpdateTable", `{"TableName":"APP"}`, v+"At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or SSESpecification or ReplicaUpdates is required")
	expect(t, service, "UpdateTable", `{"TableName":"APP","BillingMode":"PROVISIONED"}`, v+"No provisioned throughput specified for the table")
	expect(t, service, "UpdateTable", `{"TableName":"APP","GlobalSecondaryIndexUpdates":[{"Delete":{"IndexName":"nix"}}]}`, "ResourceNotFoundException: Requested resource not found: Index: nix of table APP")
}

func TestListTables_pages(t *testing.T) {
	t.Parallel()
	service := &dynamodb.DynamoDB{}
	for _, name := range []string{"ccc", "aaa", "bbb"} {
		must(t, service, "CreateTable", strings.Replace(leaseTable, "APP", name, 1))
	}
	expect(t, service, "ListTables", `{"Limit":2}`, `{"TableNames":["aaa","bbb"],"LastEvaluatedTableName":"bbb"}`)
	expect(t, service, "ListTables", `{"Limit":2,"ExclusiveStartTableName":"bbb"}`, `{"TableNames":["ccc"]}`)
}

func TestSettings_areKept(t *testing.T) {
	t.Parallel()
	service := &dynamodb.DynamoDB{Region: "eu-west-1", Account: "123456789012"}
	out := must(t, service, "CreateTable", strings.Replace(leaseTable, `"TableName"`, `"Tags":[{"Key":"team","Value":"a"}],"TableName"`, 1))
	arn := out["TableDescription"].(object)["TableArn"].(string)
	if diff := cmp.Diff("arn:aws:dynamodb:eu-west-1:123456789012:table/APP", arn); diff != "" {
		t.Error(diff)
	}
	backups := func(s string) string {
		return `{"ContinuousBackupsDescription":{"ContinuousBackupsStatus":"ENABLED","PointInTimeRecoveryDescription":{"PointInTimeRecoveryStatus":"` + s + `"}}}`
	}
	expect(t, service, "DescribeContinuousBackups", `{"TableName":"APP"}`, backups("DISABLED"))
	expect(t, service, "UpdateContinuousBackups", `{"TableName":"APP","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`, backups("ENABLED"))
	expect(t, service, "DescribeContinuousBackups", `{"TableName":"`+arn+`"}`, backups("ENABLED"))
	expect(t, service, "UpdateContinuousBackups", `{"TableName":"NIX","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`, "TableNotFoundException: Table not found: NIX")
	expect(t, service, "UpdateContinuousBackups", `{"TableName":"APP","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true,"RecoveryPeriodInDays":3}}`,
		"ValidationException: UpdateContinuousBackups.PointInTimeRecoverySpecification: the emulator does not know the parameter RecoveryPeriodInDays")

	expect(t, service, "DescribeTimeToLive", `{"TableName":"APP"}`, `{"TimeToLiveDescription":{"TimeToLiveStatus":"DISABLED"}}`)
	on := `{"TableName":"APP","TimeToLiveSpecification":{"AttributeName":"exp","Enabled":true}}`
	expect(t, service, "UpdateTimeToLive", on, `{"TimeToLiveSpecification":{"AttributeName":"exp","Enabled":true}}`)
	expect(t, service, "UpdateTimeToLive", on, "ValidationException: TimeToLive is already enabled")
	expect(t, service, "DescribeTimeToLive", `{"TableName":"APP"}`, `{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLED","AttributeName":"exp"}}`)

	must(t, service, "TagResource", `{"ResourceArn":"`+arn+`","Tags":[{"Key":"env","Value":"x"},{"Key":"team","Value":"b"}]}`)
	must(t, service, "UntagResource", `{"ResourceArn":"`+arn+`","TagKeys":["env"]}`)
	expect(t, service, "ListTagsOfResource", `{"ResourceArn":"`+arn+`"}`, `{"Tags":[{"Key":"team","Value":"b"}]}`)
}
