package leases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// How long Ensure waits for a table to become usable, and how often it looks. A new table takes some seconds on AWS and
// nothing at all on a test server.
const (
	tableWait    = 10 * time.Minute
	tableLook    = 200 * time.Millisecond
	tableLookMax = 2 * time.Second
)

// Ensure returns once the table can be used: it exists (created if LeaseManagement.CreateTable says so), its key is leaseKey,
// and it is ACTIVE or UPDATING. Several workers may do this at once. Billing mode, capacity, deletion protection and tags are
// those of the configuration if this call creates the table, and are left alone if it exists; point-in-time recovery is
// switched on in both cases if configured. It waits at most 10 minutes.
//
// A table that exists needs no right to create one: the rights used are DescribeTable, and CreateTable, TagResource and
// UpdateContinuousBackups as far as they are configured. What cannot be had is a *[PermanentError] that says what to do.
// (KCL: createLeaseTableIfNotExists, waitUntilLeaseTableExists)
func (t *Table) Ensure(ctx context.Context) error {
	ctx, cancel := loop.Timeout(ctx, tableWait, "wait for lease table "+t.cfg.TableName)
	defer cancel()
	clock := loop.ClockOf(ctx)
	pause := loop.Backoff{Base: tableLook, Max: tableLookMax}
	asked := false // we sent CreateTable and nobody has seen the table since
	status := ""
	for {
		found, err := t.describe(ctx)
		switch {
		case err != nil && status != "" && context.Cause(ctx) != nil:
			return fmt.Errorf("%w; its status is %s", err, status)
		case err != nil:
			return err
		case found == nil && !asked:
			if asked, err = t.create(ctx); err != nil {
				return err
			}
			status = "not there yet"
			if asked {
				continue // a test server's table is usable at once
			}
		case found == nil: // created, and not yet seen by the replica that was asked
		default:
			status, asked = string(found.TableStatus), false
			ready, err := t.usable(found)
			if err != nil {
				return err
			}
			if ready {
				return t.recoverable(ctx)
			}
		}
		if err := clock.Sleep(ctx, pause.Next()); err != nil {
			return fmt.Errorf("wait for lease table %s: %w; its status is %s", t.cfg.TableName, err, status)
		}
	}
}

// describe returns nil if there is no table.
func (t *Table) describe(ctx context.Context) (*types.TableDescription, error) {
	op := operation{what: "describe lease table", on: t.cfg.TableName, action: "DescribeTable", limit: t.page}
	var out *dynamodb.DescribeTableOutput
	err := t.call(ctx, op, func(ctx context.Context) (err error) {
		out, err = t.api.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.cfg.TableName}, noRetries)
		return err
	})
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

// create asks for the table. asked is false if it is not ours to wait for: somebody is deleting it, say, and the next look
// decides.
func (t *Table) create(ctx context.Context) (asked bool, err error) {
	op := operation{what: "create lease table", on: t.cfg.TableName, action: "CreateTable", limit: t.page}
	if !t.cfg.CreateTable {
		return false, &PermanentError{
			Doing: "use lease table " + t.cfg.TableName, Err: errors.New("it does not exist in this account and region"),
			Advice: "create it with the string partition key " + attrKey + ", or set LeaseManagement.CreateTable, or check LeaseManagement.TableName and the region",
		}
	}
	in := &dynamodb.CreateTableInput{
		TableName:            &t.cfg.TableName,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(attrKey), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(attrKey), KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	}
	if t.cfg.BillingMode == config.Provisioned {
		in.BillingMode = types.BillingModeProvisioned
		in.ProvisionedThroughput = &types.ProvisionedThroughput{
			ReadCapacityUnits: aws.Int64(t.cfg.ReadCapacity), WriteCapacityUnits: aws.Int64(t.cfg.WriteCapacity),
		}
	}
	if t.cfg.DeletionProtection {
		in.DeletionProtectionEnabled = aws.Bool(true)
	}
	for _, k := range slices.Sorted(maps.Keys(t.cfg.Tags)) {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(k), Value: aws.String(t.cfg.Tags[k])})
	}
	err = t.call(ctx, op, func(ctx context.Context) error {
		_, err := t.api.CreateTable(ctx, in, noRetries)
		return err
	})
	switch {
	case err == nil:
		return true, nil
	case codeOf(err) == "ResourceInUseException":
		// Another worker was faster, or our own first request was and its reply was lost, or the table is being deleted.
		return false, nil
	case isDenied(err):
		p, _ := errors.AsType[*PermanentError](err)
		p.Advice += "; or create the table yourself, with the string partition key " + attrKey
		if len(in.Tags) > 0 {
			p.Advice += " (LeaseManagement.Tags needs dynamodb:TagResource too)"
		}
	}
	return false, err
}

// usable reports whether the table can be used now; an error says that it never will be.
func (t *Table) usable(d *types.TableDescription) (bool, error) {
	unusable := func(why, advice string) error {
		return &PermanentError{Doing: "use lease table " + t.cfg.TableName, Err: errors.New(why), Advice: advice}
	}
	if d.TableStatus != types.TableStatusDeleting {
		if have, want := schemaOf(d), attrKey+" (HASH, S)"; have != want {
			return false, unusable(fmt.Sprintf("its key is %s, want %s", have, want),
				"it is another kind of table: set LeaseManagement.TableName (the default is ApplicationName) to a name of its own")
		}
	}
	switch d.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating, "": // some test servers give no status
		return true, nil
	case types.TableStatusCreating, types.TableStatusDeleting:
		return false, nil
	case types.TableStatusInaccessibleEncryptionCredentials:
		return false, unusable("its status is "+string(d.TableStatus), "give DynamoDB back the KMS key that the table is encrypted with")
	case types.TableStatusArchiving, types.TableStatusArchived, types.TableStatusReplicationNotAuthorized:
	}
	return false, unusable("its status is "+string(d.TableStatus), "restore it, or set LeaseManagement.TableName to another name")
}

// schemaOf writes a table's key for people: "wid (HASH, S), range (RANGE, N)".
func schemaOf(d *types.TableDescription) string {
	kinds := map[string]types.ScalarAttributeType{}
	for _, a := range d.AttributeDefinitions {
		kinds[aws.ToString(a.AttributeName)] = a.AttributeType
	}
	var parts []string
	for _, k := range d.KeySchema {
		name := aws.ToString(k.AttributeName)
		parts = append(parts, fmt.Sprintf("%s (%s, %s)", name, k.KeyType, kinds[name]))
	}
	return strings.Join(parts, ", ")
}

// recoverable switches point-in-time recovery on if configured. KCL does so at every start too: the table may have been
// made by an older configuration.
func (t *Table) recoverable(ctx context.Context) error {
	if !t.cfg.PointInTimeRecovery {
		return nil
	}
	op := operation{what: "switch on point-in-time recovery of lease table", on: t.cfg.TableName, action: "UpdateContinuousBackups", limit: t.page}
	api, ok := t.api.(backupsAPI)
	if !ok {
		return &PermanentError{
			Doing: op.String(), Err: fmt.Errorf("the DynamoDB client (%T) has no method UpdateContinuousBackups", t.api),
			Advice: "add it, or set LeaseManagement.PointInTimeRecovery to false",
		}
	}
	clock := loop.ClockOf(ctx)
	pause := loop.Backoff{Base: tableLook, Max: tableLookMax}
	for {
		err := t.call(ctx, op, func(ctx context.Context) error {
			_, err := api.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
				TableName:                        &t.cfg.TableName,
				PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
			}, noRetries)
			return err
		})
		p, refused := errors.AsType[*PermanentError](err)
		switch {
		case !refused:
			return err
		case codeOf(err) == "ContinuousBackupsUnavailableException": // just after the table was made
			if err := clock.Sleep(ctx, pause.Next()); err != nil {
				return fmt.Errorf("%s: %w; the last answer: %w", op, err, p.Err)
			}
		default:
			if !isDenied(err) {
				p.Advice = strings.TrimPrefix(p.Advice+"; ", "; ") + "or set LeaseManagement.PointInTimeRecovery to false"
			}
			return p
		}
	}
}
