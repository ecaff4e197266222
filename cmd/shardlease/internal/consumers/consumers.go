// Package consumers answers which consumers are registered with a stream, and whether somebody uses them.
package consumers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// List prints the stream's consumers to out. given are the flags that reach the same service again.
func List(ctx context.Context, out io.Writer, k *kinesis.Client, d *dynamodb.Client, stream, given string) error {
	arn, err := streamARN(ctx, k, stream)
	if err != nil {
		return err
	}
	var all []types.Consumer
	for pages := kinesis.NewListStreamConsumersPaginator(k, &kinesis.ListStreamConsumersInput{StreamARN: arn}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list the consumers of stream %q: %w", stream, err)
		}
		all = append(all, page.Consumers...)
	}
	if len(all) == 0 {
		return line(out, "no consumer is registered with stream %s", stream)
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if err := line(table, "CONSUMER\tSTATUS\tSINCE\tAPPLICATION OF THAT NAME"); err != nil {
		return err
	}
	var owning []string
	for _, c := range all {
		name := aws.ToString(c.ConsumerName)
		use, owned := usage(ctx, d, name)
		if owned {
			owning = append(owning, name)
		}
		if err := line(table, "%s\t%s\t%s\t%s", name, c.ConsumerStatus, aws.ToTime(c.ConsumerCreationTimestamp).UTC().Format(time.DateTime), use); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	deregister := "shardlease consumers deregister --stream " + stream + given
	for _, name := range owning {
		if err := line(out, "if the workers of %s are gone, or poll, it is left over: %s %s", name, deregister, name); err != nil {
			return err
		}
	}
	return line(out, "to remove one: %s NAME", deregister)
}

func line(out io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(out, format+"\n", args...)
	return err
}

// usage tells what the lease table of this name says, and whether somebody owns leases in it. How they read no table tells, and the
// service does not say who subscribes.
func usage(ctx context.Context, d *dynamodb.Client, table string) (text string, owned bool) {
	owners := map[string]bool{}
	pages := dynamodb.NewScanPaginator(d, &dynamodb.ScanInput{
		TableName: &table, ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String("leaseOwner"),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if _, missing := errors.AsType[*ddbtypes.ResourceNotFoundException](err); missing {
			return "left over? There is no lease table " + table, false
		}
		if err != nil {
			return "not known: " + err.Error(), false
		}
		for _, row := range page.Items {
			if owner, ok := row["leaseOwner"].(*ddbtypes.AttributeValueMemberS); ok {
				owners[owner.Value] = true
			}
		}
	}
	switch len(owners) {
	case 0:
		return "left over? Nobody owns a lease in table " + table, false
	case 1:
		return "1 worker owns leases: in use if it runs and reads by fan-out", true
	}
	return fmt.Sprintf("%d workers own leases: in use if they run and read by fan-out", len(owners)), true
}

// Deregister removes a consumer by its name and says so.
func Deregister(ctx context.Context, out io.Writer, k *kinesis.Client, stream, consumer string) error {
	arn, err := streamARN(ctx, k, stream)
	if err != nil {
		return err
	}
	if _, err := k.DeregisterStreamConsumer(ctx, &kinesis.DeregisterStreamConsumerInput{StreamARN: arn, ConsumerName: &consumer}); err != nil {
		return fmt.Errorf("deregister consumer %q of stream %q: %w", consumer, stream, err)
	}
	return line(out, "consumer %s of stream %s is deregistered", consumer, stream)
}

// streamARN is the ARN of a stream that is given by its name or by its ARN.
func streamARN(ctx context.Context, k *kinesis.Client, stream string) (*string, error) {
	if strings.HasPrefix(stream, "arn:") {
		return &stream, nil
	}
	out, err := k.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: &stream})
	if err != nil {
		return nil, fmt.Errorf("look up the ARN of stream %q: %w", stream, err)
	}
	return out.StreamDescriptionSummary.StreamARN, nil
}
