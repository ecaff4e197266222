package leases

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// keyClientVersion is the key of the row in which KCL 3.x keeps the mode of its fleet, attrClientVersion what says it.
const (
	keyClientVersion  = "Migration3.0"
	attrClientVersion = "cv"
)

// kcl3Modes are the values of cv under which a leader assigns leases. In the others (INIT, 2X, UPGRADE_FROM_2X) every worker
// takes for itself, as ours do.
var kcl3Modes = map[string]bool{"CLIENT_VERSION_3X": true, "CLIENT_VERSION_3X_WITH_ROLLBACK": true}

// CheckMode returns a *[KCL3ModeError] if the table's Java workers run in KCL 3.x mode; a fleet may change that while it runs.
// Any other error says that this could not be found out now.
//
// If listed is set, the lease table is left out: a listing of it fails with the same error, at no cost.
func (t *Table) CheckMode(ctx context.Context, application string, listed bool) error {
	is, version, where, err := t.kcl3Mode(ctx, application, listed)
	if err != nil {
		return err
	}
	if is {
		return &KCL3ModeError{Table: where, Version: version}
	}
	return nil
}

// kcl3ModeIn returns what the Migration3.0 row of a listing says if that is KCL 3.x mode, "" otherwise.
func kcl3ModeIn(row item) string {
	cv, ok := row[attrClientVersion].(*types.AttributeValueMemberS)
	if !ok || keyOf(row) != keyClientVersion || !kcl3Modes[cv.Value] {
		return ""
	}
	return cv.Value
}

// KCL3Mode reports whether the table's Java workers run in KCL 3.x mode, and the client version that their Migration3.0 row
// says, "" if there is no such row. KCL 3.5 keeps it in the lease table, 3.0 to 3.4 in APPLICATION-CoordinatorState; if the
// latter does not exist, or this worker may not read it, that counts as no.
func (t *Table) KCL3Mode(ctx context.Context, application string) (is bool, version string, err error) {
	is, version, _, err = t.kcl3Mode(ctx, application, false)
	return is, version, err
}

func (t *Table) kcl3Mode(ctx context.Context, application string, listed bool) (is bool, version, table string, err error) {
	for _, place := range []struct{ table, key string }{
		{t.cfg.TableName, attrKey},
		{application + "-CoordinatorState", "key"},
	} {
		if listed && place.table == t.cfg.TableName {
			continue
		}
		v, err := t.clientVersion(ctx, place.table, place.key)
		if place.table != t.cfg.TableName && isDenied(err) {
			err = nil // no right to read it: most policies of KCL 2.x fleets do not name this table
		}
		if err != nil {
			return false, "", place.table, err
		}
		if kcl3Modes[v] {
			return true, v, place.table, nil
		}
		if version == "" {
			version, table = v, place.table
		}
	}
	return false, version, table, nil
}

// clientVersion reads cv of the Migration3.0 row, "" if it cannot be there.
func (t *Table) clientVersion(ctx context.Context, table, keyName string) (string, error) {
	op := operation{what: "read KCL's mode from table", on: table, action: "GetItem", limit: t.attempt}
	in := &dynamodb.GetItemInput{TableName: &table, Key: item{keyName: str(keyClientVersion)}, ConsistentRead: aws.Bool(true)}
	var out *dynamodb.GetItemOutput
	err := t.call(ctx, op, func(ctx context.Context) (err error) {
		out, err = t.api.GetItem(ctx, in, noRetries)
		return err
	})
	if _, ok := errors.AsType[*PermanentError](err); ok && (isNotFound(err) || codeOf(err) == "ValidationException") {
		return "", nil // no such table, or a table of that name with another key
	}
	if err != nil {
		return "", err
	}
	if s, ok := out.Item[attrClientVersion].(*types.AttributeValueMemberS); ok {
		return s.Value, nil
	}
	return "", nil
}
