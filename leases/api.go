package leases

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// DynamoDBAPI is what a [Table] always needs of DynamoDB; *dynamodb.Client has it. What only some configurations need
// (UpdateContinuousBackups, for point-in-time recovery) is looked for when it is needed, and is a clear error if missing.
//
// A Table retries by itself, within the deadlines that leases set, and therefore switches the client's retries off by the
// options that it passes to each call. An implementation that ignores them and repeats requests is tolerated.
type DynamoDBAPI interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// backupsAPI is needed for LeaseManagement.PointInTimeRecovery.
type backupsAPI interface {
	UpdateContinuousBackups(context.Context, *dynamodb.UpdateContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateContinuousBackupsOutput, error)
}

var (
	_ DynamoDBAPI = (*dynamodb.Client)(nil)
	_ backupsAPI  = (*dynamodb.Client)(nil)
)
