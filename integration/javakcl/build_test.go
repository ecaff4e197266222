//go:build unix

package javakcl

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// program is where the compiled worker is.
type program struct{ dir string }

var built = sync.OnceValues(func() (program, error) {
	var said bytes.Buffer
	build := exec.Command("./build.sh")
	build.Stderr = &said
	out, err := build.Output()
	fmt.Print(said.String())
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == noJava {
		return program{}, nil
	}
	if err != nil {
		return program{}, fmt.Errorf("build.sh: %w\n%s", err, said.String())
	}
	return program{strings.TrimSpace(string(out))}, nil
})

// noJava is the exit code of build.sh where there is no Maven or no JDK.
const noJava = 3

// java returns the worker program, or ends the test where there is none.
func java(t *testing.T) program {
	t.Helper()
	if !*withJava {
		t.Skip("starts Java workers, for minutes: make java, make java-full")
	}
	p, err := built()
	switch {
	case err != nil:
		t.Fatal(err)
	case p.dir == "" && os.Getenv("SHARDLEASE_REQUIRE_JAVA") != "":
		t.Fatal("no Maven or no JDK here, and SHARDLEASE_REQUIRE_JAVA is set")
	case p.dir == "":
		t.Skip("NOT RUN: no Maven or no JDK here, so nothing of the Java KCL was tried (SHARDLEASE_REQUIRE_JAVA=1 makes that a failure)")
	}
	return p
}

// generation is a version of the Java KCL in one of its modes.
type generation struct {
	name          string
	kcl           string // version
	clientVersion string // of KCL 3's clientVersionConfig
	index         bool   // it adds an index to the lease table
}

var (
	kcl2       = generation{"2.7.2", "2.7.2", "", false}
	kcl3as2    = generation{"3.5.1 COMPATIBLE_WITH_2X", "3.5.1", "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X", true}
	kcl3phase1 = generation{"3.5.1 PHASE1", "3.5.1", "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X_PHASE1", false}
	kcl3       = generation{"3.5.1 3X", "3.5.1", "CLIENT_VERSION_CONFIG_3X", true}
)

// command is a worker of that generation.
func (p program) command(g generation, settings ...string) *exec.Cmd {
	dir := filepath.Join(p.dir, "kcl"+g.kcl[:1])
	path, err := os.ReadFile(filepath.Join(dir, "classpath"))
	if err != nil {
		return &exec.Cmd{Err: err}
	}
	if g.clientVersion != "" {
		settings = append(settings, "clientVersion="+g.clientVersion)
	}
	return exec.Command("java", append([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // small, and soon up
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-cp", filepath.Join(dir, "classes") + ":" + strings.TrimSpace(string(path)), "shardlease.javakcl.Main",
	}, settings...)...)
}
