import type { Clock } from '../core/clock.ts';
import type { Scrubber } from '../telemetry/scrubber.ts';
import type { Terminal } from './output/terminal.ts';
import type { Input } from './parse-flags.ts';

/** What every command gets: the world it runs in. */
export interface CommandContext {
  readonly terminal: Terminal;
  readonly scrubber: Scrubber;
  readonly clock: Clock;
  /** The environment, filled up from `.env` where that names something more. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** How a person calls this program, for commands in printed texts: `npx --no-install connector-sync`. */
  readonly program: string;
  /** Standard input, which nothing touches before a command asks for it. */
  readonly input: () => Input;
  /** From `--config`; null where it was not given. */
  readonly config: string | null;
  /** From `--verbose`: results also show what only an expert can use. */
  readonly isVerbose: boolean;
  /** Aborted by the first Ctrl-C or SIGTERM, with `SyncError` INTERRUPTED as its reason. */
  readonly signal: AbortSignal;
}
