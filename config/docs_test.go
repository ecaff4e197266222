package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every field stands in docs/configuration.md under its full name, with the default that it has.
func TestDocs_nameEveryFieldAndItsDefault(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // by field: the cell of the default
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.HasPrefix(cells[1], " `") {
			rows[strings.Split(cells[1], "`")[1]] = cells[2]
		}
	}
	fields := 0
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		for i := range v.NumField() {
			name := path + v.Type().Field(i).Name
			if f := v.Field(i); f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[InitialPosition]() {
				walk(f, name+".")
				continue
			}
			fields++
			cell, ok := rows[name]
			if !ok {
				t.Errorf("docs/configuration.md has no row for %s", name)
				continue
			}
			want := ""
			switch value := v.Field(i).Interface().(type) {
			case time.Duration:
				want = "`" + value.Truncate(time.Millisecond).String() + "`"
			case int, bool:
				want = fmt.Sprintf("`%v`", value)
			case int64:
				if value != 0 { // the capacities, which depend on another field
					want = fmt.Sprintf("`%d`", value)
				}
			}
			if !strings.Contains(cell, want) {
				t.Errorf("docs/configuration.md gives%sas the default of %s, want %s in it", cell, name, want)
			}
		}
	}
	walk(reflect.ValueOf(Default("app", "stream").Complete()), "")
	if fields < 40 {
		t.Errorf("looked at %d fields only", fields)
	}
}
