//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// settleLimit is how long it may take, after the last fault, until every lease is held and every record was delivered. The
// longest that the library waits for anything is one GracefulHandoffTimeout of 30 s; the rest is for a busy machine.
const settleLimit = 2 * time.Minute

// settle waits until the fleet has got over everything. It blames what is not so in time.
func (r *run) settle(ctx context.Context) error {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	api := newTable(r.table)
	for {
		left, err := r.unsettled(bounded, api)
		if err == nil && len(left) == 0 {
			r.settled = time.Since(began)
			r.ledger.say("all leases are held and all records have arrived")
			return nil
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r.settled = time.Since(began)
			if err != nil {
				left = append(left, err.Error())
			}
			r.ledger.blame("%v after the last fault: %s", settleLimit, strings.Join(left, "; "))
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// unsettled is what is still to come: records that were not delivered, and open shards whose lease no running worker holds.
func (r *run) unsettled(ctx context.Context, api *dynamodb.Client) (left []string, err error) {
	if n := r.ledger.missing(); n > 0 {
		left = append(left, fmt.Sprintf("%d records have not arrived", n))
	}
	var open []string
	err = r.source.call(ctx, func(ctx context.Context) error {
		shards, err := r.source.open(ctx)
		for _, s := range shards {
			open = append(open, *s.ShardId)
		}
		return err
	})
	if err != nil {
		return left, err
	}
	running := r.fleet.everybody()
	found := map[string]bool{}
	for pages := dynamodb.NewScanPaginator(api, &dynamodb.ScanInput{TableName: aws.String(appName), ConsistentRead: aws.Bool(true)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return left, fmt.Errorf("read the lease table: %w", err)
		}
		for _, row := range page.Items {
			key, owner, leaving := text(row, "leaseKey"), text(row, "leaseOwner"), text(row, "checkpointOwner")
			found[key] = true
			switch {
			case !slices.Contains(open, key):
			case !running[owner]:
				left = append(left, fmt.Sprintf("%s belongs to %q, which does not run", key, owner))
			case leaving != "":
				left = append(left, fmt.Sprintf("%s is being handed over from %s to %s", key, leaving, owner))
			}
		}
	}
	for _, key := range open {
		if !found[key] {
			left = append(left, key+" has no row")
		}
	}
	return left, nil
}

func text(row map[string]types.AttributeValue, name string) string {
	v, ok := row[name].(*types.AttributeValueMemberS)
	if !ok {
		return ""
	}
	return v.Value
}
