import { parseListenAddress } from '../../monitor/listen-address.ts';
import { command } from '../command.ts';
import { showPages } from '../show-pages.ts';

export const ui = command({
  options: {
    '--http <[host]:port>': { text: 'where to serve; a bare port binds to loopback', default: '9401' },
  },
  help: `
Shows what the sinks of the config hold, in a browser: what is fresh, what ran, what failed, what waits for a person. Needs
neither the API nor Redis for that. "worker --http" serves the same pages.

Where the config has http.token or http.tokens, the pages ask for one, and who may act can pause, cancel, undo, and have
a worker run and publish. Without one they only read, and stay closed where other machines can reach them.

It reads the config again on SIGHUP, and with "watch: true" in the config whenever a file of it changes. One with mistakes
is refused: every page says so, and the one before stays in force.

Examples:
  $ connector-sync ui
  $ connector-sync ui --http 0        on any free port
  $ connector-sync ui --http :9401    for other machines too; needs http.token`,
  enter: () => ({ isWatching: true }),
  run: async (context, flags) => {
    const read = () => context.settings('http');
    await showPages(context, await read(), parseListenAddress(flags.http), read);
  },
});
