package leases

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/golden"
)

func TestCheckMode_readsTheRowsThatJavaWrote(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, g := range golden.Rows(t) {
		row := parseRow(t, g.Item)
		if entity, _ := entityOf(row); entity != "CLIENT_VERSION_MIGRATION" || g.Table != "APP" {
			continue
		}
		s := newTableSetup(t, func(c *config.LeaseManagementConfig) { c.TableName = "APP" })
		if err := s.table.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("APP"), Item: row}); err != nil {
			t.Fatal(err)
		}
		is, version, err := s.table.KCL3Mode(t.Context(), "APP")
		if err != nil || is != strings.HasPrefix(version, "CLIENT_VERSION_3X") {
			t.Errorf("stage %q of a %s fleet: version %s, 3.x mode %t, error %v", g.Stage, g.Mode, version, is, err)
		}
		if (g.Mode == "3x") != is && g.Mode != "2x" { // a 2x fleet goes over to 3.x by itself
			t.Errorf("stage %q of a %s fleet: 3.x mode %t", g.Stage, g.Mode, is)
		}
		seen[version]++
	}
	if seen["CLIENT_VERSION_3X"] == 0 || seen["CLIENT_VERSION_3X_WITH_ROLLBACK"] == 0 || seen["CLIENT_VERSION_UPGRADE_FROM_2X"] == 0 {
		t.Errorf("versions seen: %v", seen)
	}
}

func TestCheckMode_countsACoordinatorTableThatItMayNotReadAsNo(t *testing.T) {
	t.Parallel()
	s := newTableSetup(t, nil)
	s.held(t)
	s.server.Inject(emulator.Rule{Operation: "GetItem", Match: func(b []byte) bool { return bytes.Contains(b, []byte("-CoordinatorState")) }, Effect: emulator.Fail(400, "AccessDeniedException", "no")})
	if err := s.table.CheckMode(t.Context(), "app", false); err != nil {
		t.Error(err)
	}
}

func TestCheckMode_saysThatItCouldNotFindOut(t *testing.T) {
	t.Parallel()
	s := newTableSetup(t, nil)
	s.held(t)
	s.server.Inject(emulator.Rule{Operation: "GetItem", Effect: emulator.Fail(400, "UnrecognizedClientException", "who?")})
	err := s.table.CheckMode(t.Context(), "app", false)
	if _, ok := errors.AsType[*KCL3ModeError](err); ok || err == nil || !strings.Contains(err.Error(), "read KCL's mode from table leases: ") {
		t.Errorf("error %v", err)
	}
}
