package fleettest

import (
	"flag"
	"runtime"
	"strconv"
)

// AtOnce is for the TestMain of a package whose tests wait in real time. It lets times as many of them run at once as the machine has
// processors, unless -parallel says how many. It parses the flags.
func AtOnce(times int) error {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(times*runtime.GOMAXPROCS(0)))
}
