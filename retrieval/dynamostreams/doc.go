// Package dynamostreams answers how the changes of a DynamoDB table's items come out of the table's stream.
//
// [New] makes a source for a worker:
//
//	cfg := config.Default("orders-audit", "")
//	cfg.StreamARN = table.LatestStreamArn // of DescribeTable
//	w, err := shardlease.New(cfg, cloud, factory, shardlease.WithSource(dynamostreams.New(dynamodbstreams.NewFromConfig(cloud))))
//
// A record's Data is the change as JSON, in the form that the service's API shows; [EventOf] reads it. Pace, byte budget, faults,
// trimmed positions and everything else of reading are those of package retrieval, before which the source stands as if it were
// Kinesis. docs/dynamodb-streams.md says what is different from Kinesis for a user.
package dynamostreams
