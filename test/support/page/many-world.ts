import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { Failure } from '../../../src/core/errors.ts';
import { instant } from '../../../src/core/clock.ts';
import { knownOrMade } from '../../../src/core/grouped.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import { cliSecret } from '../cli-world.ts';
import { openProgram } from '../program.ts';
import { seededRandom } from '../seeded-random.ts';
import { serveSamples } from '../serve-samples.ts';
import { noRedis } from './status-world.ts';

export type ManyWorld = Awaited<ReturnType<typeof openManyWorld>>;

type State =
  | 'refused'
  | 'failed'
  | 'late'
  | 'withheld'
  | 'retried'
  | 'interrupted'
  | 'throttled'
  | 'paused'
  | 'running'
  | 'new'
  | 'fields'
  | 'ok';

const names =
  'payroll-emea wiki billing-eu newsletter shop-de ads-search crm-leads archive-mail legacy-crm inventory-north call-center field-service helpdesk crm-accounts crm-deals events-web events-app chat-support surveys forms-site billing-us billing-uk wiki-legal inventory-south shipping returns payroll-us recruiting ads-social ads-video issue-tracker status-pages contracts expenses calendar-rooms shop-fr shop-uk ads-display erp-orders legal-hold'.split(
    ' ',
  );
/** The states of the first connectors; all others are OK. */
const firstStates: readonly State[] =
  // prettier-ignore
  ['refused', 'failed', 'late', 'withheld', 'retried', 'interrupted', 'throttled', 'paused', 'paused', 'running', 'running', 'new', 'fields'];

const minuteMs = 60_000;

/**
 * A config with that many connectors in all states, whose ledger has 20 runs of each: copies of one real sync. In each
 * hundred, the first thirteen are not as they should be, or with `needing` that many of them need a person.
 */
export async function openManyWorld(
  connectors: number,
  { nowMs = Date.now(), needing = 0 }: { readonly nowMs?: number; readonly needing?: number } = {},
) {
  const service = await serveSamples({
    port: 0,
    clientId: 'local',
    clientSecret: cliSecret,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: [
      {
        workspace: 'default',
        connectorId: 'c-one',
        definitionName: 'email-marketing',
        seed: 3,
        size: 'tiny',
      },
    ],
  });
  const all = Array.from({ length: connectors }, (_, at) => {
    const [name = '', round] = [names[at % names.length], Math.floor(at / names.length)];
    const state = at < needing ? 'refused' : (firstStates[at % 100] ?? 'ok');
    return { name: round === 0 ? name : `${name}-${round}`, state, at };
  });
  const settings = `api: { baseUrl: "${service.url}", clientId: local, clientSecret: "${cliSecret}" }
redis: { url: "${noRedis}" }
sinks:
  main: { type: sqlite, path: ./main.db, durability: normal }
connectors:
`;
  const of = 'definition: email-marketing, id: c-one, sink: main';
  const program = openProgram(`${settings}  template: { ${of}, rateLimit: { requestsPerSecond: 1000 } }\n`);
  const { folder, config, cli } = program;
  await cli('sync', 'template');
  await service.close();
  fill(join(folder, 'main.db'), all, nowMs);
  const lines = all.map(({ name, state, at }) => {
    const schedule = at % 7 === 6 ? `{ cron: '${at % 60} 4 * * *' }` : `{ every: ${15 * (1 + (at % 4))}m }`;
    const limit = state === 'paused' ? '30d' : '3h';
    const rest = state === 'late' ? 'freshWithin: 1d' : `freshWithin: ${limit}, schedule: ${schedule}`;
    return `  ${name}: { ${of}, ${rest} }\n`;
  });
  writeFileSync(config, `${settings}${lines.join('')}`);
  return { ...program, names: all.map(({ name }) => name) };
}

interface Filled {
  readonly name: string;
  readonly state: State;
  readonly at: number;
}

type Row = Readonly<Record<string, string | number | null>>;

/** Writes the rows that real syncs would have left, and takes the template away. */
function fill(file: string, all: readonly Filled[], nowMs: number): void {
  const db = new Database(file);
  db.pragma('synchronous = OFF');
  const rowsOf = (table: string): readonly Row[] =>
    db.prepare<[], Row>(`SELECT * FROM ${table} WHERE connector = 'template'`).all();
  const tables = ['_sync_connectors', '_sync_commits', '_sync_tables', '_sync_runs', '_sync_counts'] as const;
  const [[known], [commit], entities, [run]] = tables.slice(0, 4).map(rowsOf) as [
    readonly [Row],
    readonly [Row],
    readonly Row[],
    readonly [Row],
  ];
  const statements = new Map<string, Database.Statement>();
  const insert = (table: string, row: Row): void => {
    const columns = Object.keys(row);
    const names = columns.map((one) => `"${one}"`).join(', ');
    const values = columns.map((one) => `@${one}`).join(', ');
    const sql = `INSERT INTO ${table} (${names}) VALUES (${values})`;
    knownOrMade(statements, sql, () => db.prepare(sql)).run(row);
  };
  const random = seededRandom(5);
  let number = Number(run['number']);
  db.transaction(() => {
    for (const { name: connector, state, at } of all) {
      if (state === 'new') continue;
      insert('_sync_connectors', { ...known, connector });
      insert('_sync_commits', { ...commit, connector });
      // The newest run ended a few minutes ago; runs come every 20 minutes.
      const agoMs = (2 + (at % 11)) * minuteMs + Math.floor(random() * minuteMs);
      const newestMs = nowMs - agoMs - (state === 'late' || state === 'paused' ? 26 * 60 * minuteMs : 0);
      for (let round = 19; round >= 0; round -= 1) {
        number += 1;
        const startedMs = newestMs - round * 20 * minuteMs;
        const tookMs = Math.floor(3_000 + random() ** 3 * 240_000);
        const outcome = outcomeOf(state, round, random());
        const report = { ...(JSON.parse(String(run['report'])) as Report), ...reportOf(outcome, nowMs) };
        if (outcome === 'withheld' && report.entities[0] !== undefined) {
          report.entities = [{ ...report.entities[0], withheld: 412 }, ...report.entities.slice(1)];
        }
        const isEnded = outcome !== 'running' && outcome !== 'interrupted';
        insert('_sync_runs', {
          ...run,
          number,
          origin: number,
          run: runId(startedMs, number),
          connector,
          state: stateOf[outcome],
          started_at: instant(startedMs),
          finished_at: outcome === 'running' ? null : instant(startedMs + tookMs),
          report: isEnded ? JSON.stringify({ ...report, outcome: stateOf[outcome] }) : null,
          resume_at: report.resumeAt ?? null,
        });
      }
      const asOf = instant(newestMs - (state === 'refused' || state === 'failed' ? 60 * minuteMs : 0));
      for (const table of entities) {
        const rows = Math.floor(random() * 90_000);
        insert('_sync_tables', {
          ...table,
          connector,
          rows,
          as_of: asOf,
          first_origin: 1,
          table_id: `${connector}-${String(table['entity'])}`,
        });
      }
      if (state === 'paused') {
        const [since, reason] = [instant(nowMs - 26 * 60 * minuteMs), 'the account moves tomorrow'];
        insert('_sync_pauses', { connector, since, reason });
        insert('_sync_actions', {
          at: since,
          who: 'anna',
          action: 'pause',
          connector,
          entity: null,
          detail: JSON.stringify({ reason }),
          run: null,
        });
      }
      if (state === 'fields') {
        for (const field of ['sla_policy', 'csat_score']) {
          insert('_sync_drift', {
            connector,
            entity: 'lists',
            field,
            kind: 'undeclared',
            type: 'string',
            first_seen_at: instant(newestMs),
            first_run: runId(newestMs, number),
            is_refused: 0,
          });
        }
      }
    }
    for (const table of tables.slice(0, 4)) db.exec(`DELETE FROM ${table} WHERE connector = 'template'`);
  })();
  db.close();
}

type Outcome = Exclude<State, 'late' | 'paused' | 'new' | 'fields'>;

const stateOf: Readonly<Record<Outcome, string>> = {
  ok: 'ok',
  refused: 'failed',
  failed: 'failed',
  withheld: 'ok',
  retried: 'degraded',
  interrupted: 'interrupted',
  throttled: 'partial',
  running: 'running',
};

/** Trouble of the newest runs; the ones before them went well, mostly. */
function outcomeOf(state: State, round: number, chance: number): Outcome {
  if (state === 'refused' || state === 'failed') return round < 3 ? state : 'ok';
  if (round > 0) return chance > 0.97 ? 'retried' : 'ok';
  return state === 'late' || state === 'paused' || state === 'new' || state === 'fields' ? 'ok' : state;
}

interface Report {
  entities: readonly Readonly<Record<string, unknown>>[];
  readonly resumeAt: string | null;
}

function reportOf(outcome: Outcome, nowMs: number) {
  const failure = (code: Failure['code'], recovery: Failure['recovery'], message: string) => ({
    code,
    recovery,
    message,
  });
  switch (outcome) {
    case 'refused':
      return { error: failure('AUTH_FAILED', 'stop', 'list lists was answered with 401 "Token expired"') };
    case 'failed':
      return {
        error: failure(
          'IDENTITY_CHANGED',
          'stop',
          'the account is "Northwind Docs", and the stored rows are of "Northwind Wiki"',
        ),
      };
    case 'retried':
      return {
        failures: [
          {
            ...failure('UPSTREAM', 'retry', 'list members was answered with 502'),
            entity: 'lists',
            partition: null,
          },
        ],
      };
    case 'throttled':
      return { resumeAt: instant(nowMs + 7 * minuteMs) };
    case 'interrupted':
    case 'ok':
    case 'running':
    case 'withheld':
      return {};
  }
}

/** As runs are named: by their start. */
function runId(startedMs: number, number: number): string {
  return `${instant(startedMs).replaceAll(/[-:.]/g, '').replace('Z', '')}Z-${number.toString(16).padStart(8, '0')}`;
}
