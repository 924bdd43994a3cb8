import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import Database from 'better-sqlite3';
import pg from 'pg';
import { connectorActs } from '../src/app/acts.ts';
import { openApp } from '../src/app/open-app.ts';
import { instant, systemClock } from '../src/core/clock.ts';
import type { ConnectorName } from '../src/core/names.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../src/definitions/load-definitions.ts';
import { startMonitor } from '../src/monitor/start-monitor.ts';
import { servedPages } from '../src/page/page-routes.ts';
import { sinksOf } from '../src/settings/choices.ts';
import type { SettingsWith } from '../src/settings/settings.ts';
import { loadSettings } from '../src/settings/load-settings.ts';
import { openServed } from '../src/sinks/registry.ts';
import { sharedPostgres } from '../test/support/postgres.ts';
import { startRedis } from '../test/support/redis.ts';
import { serveSamples } from '../test/support/serve-samples.ts';
import { testCredentials } from '../test/support/sync-once.ts';

/**
 * How long the overview of many connectors takes: `npm run bench:page -- <connectors> <runs of each> <sqlite|postgres>
 * <sinks>`. A real sync of the first connector makes the rows of its ledger; those of the others, in all sinks, are
 * copies under other names. Each view is asked for after nothing has changed, and after a run has ended in one sink, as
 * in a busy worker: then what changed must be on the page.
 */
const [connectors = 10_000, runs = 100, , sinks = 1] = process.argv.slice(2).map(Number);
const type = process.argv[4] === 'postgres' ? 'postgres' : 'sqlite';
const rounds = 15;
const template = 'c0' as ConnectorName;
const views = {
  'by health': '',
  'by age': '?sort=age',
  'by rows, page 7': '?sort=rows&page=7',
  'named 99': '?q=99',
  failed: '?state=failed',
  'needs a person, by name': '?state=needs-you&sort=name',
};

const folder = mkdtempSync(path.join(tmpdir(), 'bench-page-'));
const service = await serveSamples({
  port: 0,
  ...testCredentials,
  definitions: loadDefinitions([builtInDefinitionsFolder]),
  accounts: [
    {
      connectorId: 'id-c0',
      definitionName: 'workspace-notes',
      workspace: 'default',
      seed: 1,
      size: 'tiny',
    },
  ],
});
const server = type === 'postgres' ? await sharedPostgres() : null;
const redis = await startRedis();
const space = randomBytes(4).toString('hex');
const schemaOf = (sink: number): string => `page_${space}_${sink}`;
/** Where a transaction that holds a connector leaves its mark. */
const noted =
  server === null
    ? 'INSERT INTO _sync_commits (connector, last_commit)'
    : 'INSERT INTO _sync_counters (connector, epoch, seq, last_commit)';
const noToken = server === null ? `, ''` : ', 1, 0, gen_random_uuid()';
const newToken = server === null ? 'hex(randomblob(16))' : 'gen_random_uuid()';

try {
  const settings = loadSettings({ file: writeConfig(), env: {} });
  await makeTemplate(settings);
  for (const { name, ...sink } of sinksOf([...settings.connectors.values()])) {
    // Makes the sink.
    await using _ledger = await openServed(sink, { ...sink, clock: systemClock });
    await fill(Number(name.slice(1)));
  }
  await using served = await startMonitor({
    pages: servedPages({ settings, program: 'connector-sync', clock: systemClock }),
    listen: { host: '127.0.0.1', port: 0 },
    log: { info: () => undefined, warn: console.warn, error: console.error },
  });
  const ask = async (view: string): Promise<{ readonly ms: number; readonly text: string }> => {
    const begunMs = performance.now();
    const text = await (await fetch(`${served.url}/${view}`)).text();
    return { ms: performance.now() - begunMs, text };
  };
  console.log(`${connectors} connectors with ${runs} runs each in ${sinks} ${type} sinks`);
  console.log(`first view: ${Math.round((await ask('')).ms)} ms`);
  for (const [name, view] of Object.entries(views)) {
    const same: number[] = [];
    const changed: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      same.push((await ask(view)).ms);
      const reason = await endRun(round % sinks, round);
      const { ms } = await ask(view);
      const { text } = await ask('?sort=run');
      if (!text.includes(reason)) throw new Error(`a view lacks what has just been stored: ${reason}`);
      changed.push(ms);
    }
    console.log(`${name.padEnd(26)} unchanged ${shown(same)}, after a run ${shown(changed)}`);
  }
  const all = [...settings.connectors.values()];
  {
    await using app = await openApp({ settings, clock: systemClock, command: 'bench' });
    await timed('what is wrong, first look', () => app.notifier.look(all));
    for (let round = 0; round < 3; round += 1) await timed('and again', () => app.notifier.look(all));
  }
  const nothing = (): void => undefined;
  const world = { settings, clock: systemClock, signal: new AbortController().signal, program: 'bench' };
  for (const name of ['pause', 'resume'] as const) {
    const act = await connectorActs[name](all, world);
    await timed(`${name} all`, () => act.do({ who: 'bench', reason: '', tell: nothing }));
  }
} finally {
  await service.close();
  await redis.stop();
  rmSync(folder, { recursive: true, force: true });
}

function writeConfig(): string {
  const file = path.join(folder, 'config.yaml');
  const sinkText = (sink: number): string =>
    server === null
      ? `{ type: sqlite, path: ./s${sink}.db, durability: normal }`
      : `{ type: postgres, url: '${server.url}', schema: ${schemaOf(sink)}, connections: 2 }`;
  const config = {
    sinks: Array.from({ length: sinks }, (_, sink) => `  s${sink}: ${sinkText(sink)}`),
    connectors: Array.from(
      { length: connectors },
      (_, at) =>
        `  c${at}: { definition: workspace-notes, id: id-c${at}, sink: s${at % sinks}, schedule: { every: 1h } }`,
    ),
  };
  const lines = [
    `api: { baseUrl: "${service.url}", clientId: ${testCredentials.clientId}, clientSecret: "${testCredentials.clientSecret}" }`,
    `redis: { url: "${redis.url}" }`,
    // Never sent to.
    'notify: { ops: { type: webhook, url: "https://ops.example.test/", connectors: [c0], kinds: [publication-failed] } }',
    'sinks:',
    ...config.sinks,
    'connectors:',
    ...config.connectors,
  ];
  writeFileSync(file, lines.join('\n'));
  return file;
}

/** The sync whose rows all others are copies of. */
async function makeTemplate(settings: SettingsWith<'access'>): Promise<void> {
  const connector = settings.connectors.get(template);
  if (connector === undefined) throw new Error(`no connector ${template}`);
  await using app = await openApp({ settings, clock: systemClock, command: 'bench' });
  await app.sync(connector, {
    globs: { select: [], exclude: [] },
    onEvent: () => undefined,
    signal: new AbortController().signal,
  });
}

async function fill(sink: number): Promise<void> {
  const from = server === null ? 'first' : schemaOf(0);
  const others = `WITH RECURSIVE n(i) AS (SELECT ${sink} UNION ALL SELECT i + ${sinks} FROM n WHERE i + ${sinks} < ${connectors})`;
  const copied = (table: string, columns: string): string =>
    `${others} INSERT INTO ${table} (connector, ${columns}) SELECT 'c' || i, ${columns} FROM n, ${from}.${table} WHERE connector = '${template}' AND i <> 0`;
  const times = Array.from({ length: runs }, (_, round) => {
    const at = instant(Date.now() - (runs - round) * 3_600_000);
    return `(${round}, '${at}')`;
  });
  const columns = 'origin, scope, continues, can_continue, report, kind, chain, is_full';
  const statements = [
    copied('_sync_connectors', 'base_url, connector_id, definition, definition_hash, epoch, holder'),
    copied('_sync_tables', 'entity, name, key, stored, declared, rows, last_row, as_of'),
    `${others} ${noted} SELECT 'c' || i${noToken} FROM n WHERE true ON CONFLICT DO NOTHING`,
    `${others} INSERT INTO _sync_runs (run, connector, state, started_at, finished_at, ${columns})
     SELECT 'r' || i || '-' || column1, 'c' || i, CASE WHEN i % 50 = 7 THEN 'degraded' ELSE 'ok' END, column2, column2, ${columns}
     FROM n, (VALUES ${times.join(', ')}) AS times,
       (SELECT * FROM ${from}._sync_runs WHERE connector = '${template}' ORDER BY number LIMIT 1) AS one
     ORDER BY column1`,
  ];
  await execute(sink, [...statements, server === null ? 'ANALYZE main' : 'ANALYZE']);
}

/** Resolves with a text that the page shows of it. */
async function endRun(sink: number, round: number): Promise<string> {
  const name = `c${sink}`;
  const reason = `paused-${sink}-${round}`;
  await execute(sink, [
    `DELETE FROM _sync_pauses WHERE connector = '${name}'`,
    `INSERT INTO _sync_pauses (connector, since, reason) VALUES ('${name}', '${instant(Date.now())}', '${reason}')`,
    `INSERT INTO _sync_runs (run, connector, state, started_at, finished_at, origin, scope, continues, can_continue, report, kind, chain, is_full)
     SELECT run || '-${randomBytes(4).toString('hex')}', connector, 'failed', '${instant(Date.now())}', '${instant(Date.now())}', origin, scope, continues, can_continue, report, kind, chain, is_full
     FROM _sync_runs WHERE connector = '${name}' ORDER BY number LIMIT 1`,
    `UPDATE ${server === null ? '_sync_commits' : '_sync_counters'} SET last_commit = ${newToken} WHERE connector = '${name}'`,
  ]);
  return reason;
}

/** With the longest time for which nothing else could run. */
async function timed(what: string, work: () => Promise<unknown>): Promise<void> {
  const delays = monitorEventLoopDelay({ resolution: 5 });
  delays.enable();
  const begunMs = performance.now();
  await work();
  const ms = Math.round(performance.now() - begunMs);
  console.log(`${what.padEnd(26)} ${ms} ms, in turns of at most ${Math.round(delays.max / 1e6)} ms`);
}

async function execute(sink: number, statements: readonly string[]): Promise<void> {
  if (server === null) {
    const db = new Database(path.join(folder, `s${sink}.db`));
    db.pragma('synchronous = OFF');
    db.exec(`ATTACH '${path.join(folder, 's0.db')}' AS first`);
    for (const statement of statements) db.exec(statement);
    db.close();
    return;
  }
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  await client.query(`SET search_path TO ${schemaOf(sink)}`);
  for (const statement of statements) await client.query(statement);
  await client.end();
}

function shown(values: readonly number[]): string {
  const sorted = values.toSorted((left, right) => left - right);
  const [middle = 0, most = 0] = [sorted[Math.floor(sorted.length / 2)], sorted.at(-1)];
  return `${Math.round(middle)} ms (at most ${Math.round(most)})`.padEnd(24);
}
