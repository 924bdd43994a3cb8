import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { JsonObject } from '../../../src/core/json.ts';
import { isConnectorName, type ConnectorName } from '../../../src/core/names.ts';
import { Secret } from '../../../src/core/secret.ts';
import type { Definition } from '../../../src/definitions/definition.ts';
import { loadDefinition } from '../../../src/definitions/load-definitions.ts';
import { ordinaryRun } from '../../../src/engine/plan-run.ts';
import { syncConnector } from '../../../src/engine/sync-connector.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { RunReport } from '../../../src/sinks/run-report.ts';
import { openDirectClient, openDirectSource } from '../../../src/source/direct/open-direct-source.ts';
import { instantClock } from '../instant-clock.ts';
import { allEntities, identityFor } from '../sync-once.ts';
import {
  definitionOf,
  openGenerated,
  type GeneratedService,
  type Riddles,
  type ServiceKind,
} from './service.ts';
import { listen } from '../listen.ts';

/** What one run of a service did, as an onlooker sees it. */
export interface JudgedRun {
  readonly kind: ServiceKind;
  readonly run: number;
  readonly report: RunReport;
  readonly isCalledComplete: boolean;
  /** The word that `status` has for it after the run. */
  readonly statusWord: string | null;
  /** Records that the service showed from start to end, and that this run marked as deleted. */
  readonly falseDeletes: readonly number[];
  /** Such records that are not stored, in a run that calls its entity complete. */
  readonly missing: readonly number[];
  /** Records that are stored and that the service does not show. */
  readonly stale: number;
  /** Records that were stored before the run, and that the service does not show any more. */
  readonly gone: number;
  readonly riddles: Riddles;
  readonly calls: number;
  readonly bareCalls: number;
  readonly asked: readonly string[];
}

/** Generated services behind one real server, each read into one SQLite file by the engine of the program. */
export async function openGeneratedWorld(folder: string) {
  let service: GeneratedService | null = null;
  let asked: string[] = [];
  const server = createServer((request, response) => {
    const { pathname, searchParams, search } = new URL(request.url ?? '/', 'http://generated');
    const { status, body } =
      pathname === '/me' || service === null
        ? { status: 200, body: { id: 'one' } }
        : service.answer(pathname, searchParams);
    const line = `${pathname}${search} ${status} ${JSON.stringify(body)}`;
    if (pathname !== '/me') asked.push(line.slice(0, 200));
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  const { host: origin, close } = await listen(server);
  const clock = instantClock();
  const client = openDirectClient({ allowHosts: [origin], clock, maxThrottleWaitMs: 60_000 });
  const file = join(folder, 'generated.db');
  const sink = await openSink({ name: 'main', type: 'sqlite', path: file, durability: 'normal' }, { clock });
  const database = new Database(file, { readonly: true });

  async function run(definition: Definition, own: GeneratedService, isFull: boolean): Promise<RunReport> {
    const name = nameOf(own.kind);
    const account = client.account({
      name,
      definition,
      credentials: new Map([['token', new Secret('token-of-a-test')]]),
    });
    await using source = openDirectSource(account, {
      definition,
      address: '',
      concurrency: 1,
      requestsPerSecond: 10_000,
      clock,
    });
    return await syncConnector({
      identity: identityFor({ definition, connectorId: `c-${own.kind.seed}`, connector: name }),
      definition,
      entities: allEntities(definition),
      source,
      sink,
      concurrency: 1,
      requestsPerSecond: 10_000,
      doubtsAccount: false,
      clock,
      onEvent: () => undefined,
      signal: new AbortController().signal,
      files: null,
      run: { ...ordinaryRun, isFull, allowDeletes: true },
    });
  }

  function stored(name: string): { readonly live: Set<number>; readonly deleted: Set<number> } {
    const table = `${name.replaceAll('-', '_')}__items`;
    const has = database.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(table) !== undefined;
    const rows = has
      ? (database.prepare(`SELECT id, _deleted_at AS gone FROM "${table}"`).all() as {
          id: number;
          gone: unknown;
        }[])
      : [];
    const of = (isLive: boolean): Set<number> =>
      new Set(rows.filter(({ gone }) => (gone === null) === isLive).map(({ id }) => id));
    return { live: of(true), deleted: of(false) };
  }

  function definedBy(definition: JsonObject): Definition {
    const path = join(folder, 'generated.yaml');
    writeFileSync(path, JSON.stringify(definition));
    return loadDefinition(path);
  }

  return {
    /** Reads a service in all its runs. */
    async read(kind: ServiceKind): Promise<readonly JudgedRun[]> {
      const own = openGenerated(kind);
      service = own;
      const name = nameOf(kind);
      const definition = definedBy(definitionOf(kind, `http://${origin}`));
      const judged: JudgedRun[] = [];
      /** Runs of the chain so far. */
      let chain = 0;
      for (const [index, { isFull, isQuiet }] of kind.runs.entries()) {
        if (!isQuiet) own.pass();
        clock.advance(3_600_000);
        const before = stored(name);
        const callsBefore = own.calls();
        const bareCalls = own.bareCalls();
        asked = [];
        own.begin();
        const report = await run(definition, own, isFull);
        const after = stored(name);
        const [status] = await sink.history.connectors([connectorName(kind)]);
        const statusWord = status?.entities[0]?.completeness ?? null;
        chain = report.continues === null ? 1 : chain + 1;
        const shown = [...own.throughout(chain)];
        const isCalledComplete = report.outcome === 'ok' && report.entities[0]?.completeness === 'complete';
        judged.push({
          kind,
          run: index + 1,
          report,
          isCalledComplete,
          statusWord,
          falseDeletes: shown.filter((id) => before.live.has(id) && after.deleted.has(id)),
          missing: isCalledComplete ? shown.filter((id) => !after.live.has(id)) : [],
          stale: [...after.live].filter((id) => !own.shown().has(id)).length,
          gone: [...before.live].filter((id) => !own.shown().has(id)).length,
          riddles: own.riddles(chain),
          calls: own.calls() - callsBefore,
          bareCalls,
          asked,
        });
      }
      return judged;
    },
    async [Symbol.asyncDispose]() {
      database.close();
      await sink[Symbol.asyncDispose]();
      await client[Symbol.asyncDispose]();
      await close();
    },
  };
}

function nameOf({ seed }: ServiceKind): string {
  return `service-${seed}`;
}

function connectorName(kind: ServiceKind): ConnectorName {
  const name = nameOf(kind);
  if (!isConnectorName(name)) throw new Error(`${name} is no name of a connector`);
  return name;
}
