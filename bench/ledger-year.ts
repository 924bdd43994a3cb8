import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { instant } from '../src/core/clock.ts';
import type { JsonValue } from '../src/core/json.ts';
import type { ConnectorId, ConnectorName, EntityName } from '../src/core/names.ts';
import { loadDefinitions } from '../src/definitions/load-definitions.ts';
import { syncConnector } from '../src/engine/sync-connector.ts';
import { openSqliteSink } from '../src/sinks/sqlite/sqlite-sink.ts';
import { type Source, readRecords } from '../src/source/source.ts';
import { instantClock } from '../test/support/instant-clock.ts';

/**
 * The size of the ledger after a year of runs, in a SQLite sink with a simulated clock and without the network: `npm
 * run bench:ledger -- <runs of each connector> <minutes between them>`. Each run reads a changed record, twenty records
 * that cannot be stored, an undeclared field with a new name, and a list with members that exists every other day. The
 * number of records stays constant, so only the ledger grows.
 */
const runs = Number(process.argv[2] ?? 1_460);
const stepMs = Number(process.argv[3] ?? (365 * 24 * 60) / runs) * 60_000;
const connectors = 1;
const lines = 12;
const refusedByRun = 20;

const definition = loadDefinitions(['config/definitions']).get('email-marketing');
if (definition === undefined) throw new Error('no definition email-marketing');
const weekly = { variants: [{}], fullEveryMs: 7 * 86_400_000, onSchemaChange: 'keepExtra' } as const;
const entities = new Map([
  ['lists' as EntityName, { ...weekly, parents: [] }],
  ['list_members' as EntityName, { ...weekly, parents: ['lists' as EntityName] }],
]);
const clock = instantClock();
const folder = mkdtempSync(path.join(tmpdir(), 'ledger-year-'));
const file = path.join(folder, 'test.db');
const sink = await openSqliteSink({ file, durability: 'normal', clock });
try {
  for (let run = 1; run <= runs; run += 1) {
    const startedMs = performance.now();
    for (let index = 0; index < connectors; index += 1) await sync(index, run);
    if (run === 1 || run % Math.ceil(runs / lines) === 0) tell(run, performance.now() - startedMs);
    clock.advance(stepMs);
  }
} finally {
  await sink[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
}

async function sync(index: number, run: number): Promise<void> {
  if (definition === undefined) return;
  const report = await syncConnector({
    identity: {
      connector: `bench-${index}` as ConnectorName,
      baseUrl: 'http://bench',
      connectorId: `bench-${index}` as ConnectorId,
      definition: definition.name,
      definitionHash: definition.contentHash,
      holder: { pid: process.pid, host: hostname(), command: 'bench', since: instant(clock.now()) },
    },
    definition,
    entities,
    source: sourceOf(run),
    sink,
    concurrency: 2,
    requestsPerSecond: 1_000,
    clock,
    onEvent: () => undefined,
    signal: new AbortController().signal,
  });
  if (report.error !== null || report.outcome === 'failed') {
    throw new Error(`${report.outcome}: ${JSON.stringify(report.error ?? report.failures)}`);
  }
}

function sourceOf(run: number): Source {
  const day = Math.floor(clock.now() / 86_400_000);
  const lists: JsonValue[] = Array.from({ length: 9 + (day % 2) }, (_, index) => ({
    id: `list-${index}`,
    name: index === 0 ? `changed in run ${run}` : 'a list',
    date_created: '2020-01-01T00:00:00+00:00',
    ...(index === 0 ? { [`field_${run}`]: true } : {}),
  }));
  const refused: JsonValue[] = Array.from({ length: refusedByRun }, (_, index) => ({
    name: `without an id, ${run} ${index}`,
    contact: { company: 'x'.repeat(500) },
  }));
  const membersOf = (list: string): JsonValue[] =>
    Array.from({ length: 5 }, (_, index) => ({
      id: `${list}-member-${index}`,
      list_id: list,
      email_address: `${index}@example.com`,
      last_changed: '2020-01-01T00:00:00+00:00',
    }));
  return {
    connect: () => Promise.resolve(),
    list: ({ entity, params }) => {
      const { list_id: list } = params;
      const all = entity === 'lists' || typeof list !== 'string' ? [...lists, ...refused] : membersOf(list);
      const offset = Number(params['offset'] ?? 0);
      const records = readRecords(all.slice(offset, offset + Number(params['count'] ?? 10)));
      return Promise.resolve({ records, fetched: records.length, next: null, serverTime: null, bytes: 0 });
    },
    get: () => Promise.resolve(null),
    stats: () => ({ calls: 0, retries: 0, throttled: 0, waitedMs: 0, bytes: 0, serverTime: null }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function tell(run: number, ms: number): void {
  const db = new Database(file, { readonly: true });
  const names = db
    .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .pluck()
    .all();
  const counted = names.map((name) => {
    const rows = db.prepare<[], number>(`SELECT count(*) FROM "${name}"`).pluck().get() ?? 0;
    return [name.replace('_sync_', ''), rows] as const;
  });
  db.close();
  const rows = counted.filter(([, count]) => count > 0).map(([name, count]) => `${name} ${count}`);
  const days = ((run - 1) * stepMs) / 86_400_000;
  const mib = statSync(file).size / 1024 / 1024;
  process.stdout.write(
    `day ${days.toFixed(0).padStart(3)}, run ${run} of each: ${mib.toFixed(1)} MiB, ${(ms / connectors).toFixed(1)} ms a run; ${rows.join(', ')}\n`,
  );
}
