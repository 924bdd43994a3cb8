import type { Writable } from 'node:stream';
import type { Clock } from '../core/clock.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import type { ListenAddress } from '../monitor/listen-address.ts';
import type { HttpSettings, LocalSettings } from '../settings/settings.ts';
import { openMcpMetrics } from '../telemetry/mcp-metrics.ts';
import { loadPackage } from './load-package.ts';
import { mcpServer, type Offer } from './mcp-server.ts';
import { openSearches, type Searches } from './open-searches.ts';
import { runCalls } from './run-calls.ts';
import { serveHttp } from './serve-http.ts';
import { serveStdio, taken } from './serve-stdio.ts';
import { connectorsOf, shownEntities } from './shown-entities.ts';
import { openSql } from './sql/open-sql.ts';

interface McpOptions {
  /** The config, which is read once. */
  readonly settings: LocalSettings;
  readonly clock: Clock;
  readonly log: JobLog;
  /** Agents may query by SQL. */
  readonly allowsSql: boolean;
  /** How a person calls this program. */
  readonly program: string;
}

interface StdioMcpOptions extends McpOptions {
  readonly input: AsyncIterable<string | Uint8Array>;
  /** Gets the protocol, and nothing else. */
  readonly output: Writable;
  readonly signal: AbortSignal;
}

/**
 * Serves what a config shows to an agent over standard input and output, until the agent closes them or the signal is
 * aborted. Throws PACKAGE_MISSING.
 */
export async function mcpOverStdio(options: StdioMcpOptions): Promise<void> {
  const { input, output, log, clock, signal } = options;
  const library = await loadPackage();
  await using searches = openSearches(clock);
  const runCall = runCalls({ clock, log, ready: () => taken(output) });
  const open = () => mcpServer(library, offerOf(options, searches), runCall);
  await serveStdio(library, { input, output, open, log, signal });
}

interface HttpMcpOptions extends McpOptions {
  readonly http: HttpSettings;
  readonly listen: ListenAddress;
}

/** The same at an address of this machine, to many agents; the caller disposes it. Throws as `serveHttp` does. */
export async function mcpOverHttp(options: HttpMcpOptions) {
  const { http, listen, log, clock } = options;
  const library = await loadPackage();
  const searches = openSearches(clock);
  const metrics = openMcpMetrics();
  const runCall = runCalls({ clock, log, onCall: metrics.onCall });
  const offer = offerOf(options, searches);
  const open = () => mcpServer(library, offer, runCall);
  try {
    const served = await serveHttp(library, {
      listen,
      http,
      open,
      metrics: metrics.text,
      log,
      clock,
    });
    return {
      url: served.url,
      [Symbol.asyncDispose]: async () => {
        await served[Symbol.asyncDispose]();
        await searches[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await searches[Symbol.asyncDispose]();
    throw error;
  }
}

function offerOf({ settings, clock, program, allowsSql }: McpOptions, searches: Searches): Offer {
  const shown = shownEntities(connectorsOf(settings));
  const sql = allowsSql ? openSql(settings.mcp.sqlRole, shown) : null;
  return { allowsSql, world: { shown, searches, sql, clock, program } };
}
