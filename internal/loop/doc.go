// Package loop answers how a component waits: it is the only place that reads clocks and arms timers.
//
// A component asks [ClockOf] for the clock of its context once, when it starts, and uses nothing else. Outside the
// simulator that clock is the process's own. The simulator puts another one into the context, so that one worker of a
// fleet can be slow, paused, or wake from a suspend, while all of them live in one bubble of virtual time.
package loop
