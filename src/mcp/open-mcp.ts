import type { Writable } from 'node:stream';
import type { Clock } from '../core/clock.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { loadPackage } from './load-package.ts';
import { mcpServer } from './mcp-server.ts';
import { openSearches } from './open-searches.ts';
import { runCalls } from './run-calls.ts';
import { serveStdio, taken } from './serve-stdio.ts';
import { shownEntities } from './shown-entities.ts';

export interface McpOptions {
  readonly settings: LocalSettings;
  readonly clock: Clock;
  readonly log: JobLog;
  /** How a person calls this program. */
  readonly program: string;
  readonly signal: AbortSignal;
}

interface StdioMcpOptions extends McpOptions {
  readonly input: AsyncIterable<string | Uint8Array>;
  /** Gets the protocol, and nothing else. */
  readonly output: Writable;
}

/**
 * Serves what a config shows to agents over standard input and output, until the client closes them or the signal is
 * aborted. Throws PACKAGE_MISSING.
 */
export async function mcpOverStdio(options: StdioMcpOptions): Promise<void> {
  const { settings, clock, log, program, signal, input, output } = options;
  const library = await loadPackage();
  await using searches = openSearches(clock);
  const world = { shown: shownEntities(settings), searches, clock, program };
  const runCall = runCalls({ clock, log, ready: () => taken(output) });
  const open = () => mcpServer(library, world, runCall);
  await serveStdio(library, { input, output, open, log, signal });
}
