import { afterEach, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { builtInDefinition, startSampleService } from '../support/sample-service.ts';
import { allSampleSinks } from '../support/all-sample-sinks.ts';
import { chosenEntities, entityNamed, syncOnce, type SyncOnce } from '../support/sync-once.ts';
import { triedSinks } from '../support/trials.ts';
import { SyncError } from '../../src/core/errors.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import type { EntityTable } from '../../src/core/records.ts';
import type { OnSchemaChange } from '../../src/engine/chosen-entities.ts';
import { withEvolved } from '../../src/engine/prepare/schema-policy.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { listingOf } from '../support/listing-of.ts';
import type { Service } from '../../src/service/start-service.ts';
import type { DriftRow } from '../../src/sinks/readings.ts';
import { openHistory } from '../../src/sinks/registry.ts';
import type { EntityReport, RunReport } from '../../src/sinks/run-report.ts';

const mailing = builtInDefinition('email-marketing');
const automations = entityNamed(mailing, 'automations');
const activity = entityNamed(mailing, 'email_activity');
type SinkType = keyof typeof allSampleSinks;

let folder: string;
let service: Service;
/** Entity -> what the service does to each of its records from now on. */
const edits = new Map<string, (record: JsonObject, index: number) => JsonObject>();

it.beforeEach(async ({ folder: made }) => {
  folder = made;
  edits.clear();
  service = await startSampleService('tiny', { wrap: edited });
});

afterEach(() => service.close());

function edited(account: SampleAccount): SampleAccount {
  return {
    list: (entity, params) => {
      const listing = account.list(entity, params);
      const edit = edits.get(entity);
      if (edit === undefined) return listing;
      return listingOf(listing.slice(0, Number.POSITIVE_INFINITY).map(edit), listing.metadata);
    },
    get: (entity, params) => account.get(entity, params),
  };
}

/** Activity is read in full by every run, so that each sees all of it. */
async function sync(
  type: SinkType,
  onSchemaChange: OnSchemaChange,
  more: Pick<SyncOnce, 'wrapSink'> = {},
): Promise<RunReport> {
  const chosen = chosenEntities(mailing, ['automations', 'lists', 'campaigns', 'email_activity']);
  return await syncOnce({
    baseUrl: service.url,
    definition: mailing,
    connectorId: 'mailing',
    sink: allSampleSinks[type].options(folder),
    entities: new Map([...chosen].map(([name, one]) => [name, { ...one, onSchemaChange }])),
    run: { isFull: true },
    ...more,
  });
}

function of(report: RunReport, entity: string): EntityReport {
  const found = report.entities.find((one) => one.entity === entity);
  if (found === undefined) throw new Error(`nothing is reported of ${entity}`);
  return found;
}

const written = (report: RunReport): number =>
  report.entities.reduce((sum, { counts }) => sum + counts.inserted + counts.updated, 0);

async function drift(type: SinkType, entity: string): Promise<readonly DriftRow[]> {
  await using history = await openHistory(allSampleSinks[type].options(folder));
  return (await history.drift(mailing.name as ConnectorName)).filter((row) => row.entity === entity);
}

const rows = (type: SinkType, table: EntityTable) => [
  ...allSampleSinks[type].rows(folder, mailing.name, table).values(),
];

const addField = (name: string) => (record: JsonObject, index: number) => ({
  ...record,
  [name]: `v${index}`,
});

describe.each(triedSinks)('a service that sends a new field (%s)', (type) => {
  // Proves promise 6
  it('has it moved into a column, and the next sync of unchanged records writes no row', async () => {
    edits.set('automations', addField('nickname'));
    edits.set('email_activity', ({ activity: events, ...record }) => ({
      ...record,
      activity: (events as readonly JsonObject[]).map((event) => ({ ...event, device: 'phone' })),
    }));
    await sync(type, 'evolve');
    const before = sequenceOf(type);
    const second = await sync(type, 'evolve');
    expect([second.outcome, written(second)]).toEqual(['ok', 0]);
    expect(sequenceOf(type)).toBe(before);
    expect(await drift(type, 'automations')).toMatchObject([{ field: 'nickname', place: 'column' }]);
    const events = activity.explodedTable?.entity ?? '';
    expect(await drift(type, events)).toMatchObject([{ field: 'device', place: 'column' }]);

    edits.set('automations', (record, index) => ({ ...record, nickname: `w${index}` }));
    const third = await sync(type, 'evolve');
    const wider = withEvolved(automations.table, { evolved: [{ name: 'nickname', type: 'string' }] });
    expect(of(third, 'automations').counts).toMatchObject({ updated: rows(type, wider).length });
    expect(rows(type, wider).map(({ columns, extra }) => [columns['nickname'], extra])).toEqual(
      rows(type, wider).map((_, index) => [`w${index}`, null]),
    );
  });

  it('has columns for its other entities where a table refuses one, and the entity named', async () => {
    edits.set('automations', addField('nickname'));
    edits.set('lists', addField('nickname'));
    const refused = new SyncError('PostgreSQL refused', { code: 'SINK_FAILED', recovery: 'stop' });
    const report = await sync(type, 'evolve', {
      wrapSink: (sink) => ({
        ...sink,
        drift: {
          ...sink.drift,
          evolve: async (lease, run, entity) =>
            entity === 'automations'
              ? await Promise.reject(refused)
              : await sink.drift.evolve(lease, run, entity),
        },
      }),
    });
    expect(report).toMatchObject({
      outcome: 'degraded',
      error: null,
      failures: [{ entity: 'automations', code: 'SINK_FAILED', message: 'PostgreSQL refused' }],
    });
    expect(of(report, 'automations').isWhole).toBe(true);
    expect(await drift(type, 'automations')).toMatchObject([{ field: 'nickname', place: 'extra' }]);
    expect(await drift(type, 'lists')).toMatchObject([{ field: 'nickname', place: 'column' }]);
  });

  it('has its records kept out with quarantine, and let in by a run that accepts them', async () => {
    await sync(type, 'quarantine');
    edits.set('automations', (record, index) => (index === 0 ? { ...record, nickname: 'x' } : record));
    const second = await sync(type, 'quarantine');
    expect(of(second, 'automations').counts).toMatchObject({ quarantined: 1, updated: 0 });
    expect(second.failures).toMatchObject([{ entity: 'automations', code: 'QUARANTINE_LIMIT' }]);
    expect(await drift(type, 'automations')).toMatchObject([{ field: 'nickname', place: 'quarantine' }]);
    expect(of(await sync(type, 'quarantine'), 'automations').counts.quarantined).toBe(1);

    expect(of(await sync(type, 'keepExtra'), 'automations').counts).toMatchObject({
      quarantined: 0,
      updated: 1,
    });
    const after = await sync(type, 'quarantine');
    expect(of(after, 'automations').counts.quarantined).toBe(0);
    expect(after.outcome).toBe('ok');
  });

  // Proves promise 7.2
  it('fails that entity with fail: nothing of the page is stored, the others are read, and the run says what to do', async () => {
    await sync(type, 'fail');
    const before = rows(type, automations.table);
    edits.set('automations', addField('nickname'));
    edits.set('lists', (record) => ({ ...record, name: 'renamed' }));
    const report = await sync(type, 'fail');
    expect(report.outcome).toBe('degraded');
    expect(report.failures).toMatchObject([
      { entity: 'automations', code: 'SCHEMA_CHANGED', recovery: 'skip-entity' },
    ]);
    expect(report.failures[0]?.message).toContain('the new field "nickname" (a string)');
    expect(rows(type, automations.table)).toEqual(before);
    expect(of(report, 'lists').counts.updated).toBeGreaterThan(0);
    expect(of(report, 'email_activity').counts.fetched).toBeGreaterThan(0);

    expect((await sync(type, 'keepExtra')).outcome).toBe('ok');
    expect((await sync(type, 'fail')).outcome).toBe('ok');
  });
});

/** The sink's change counter: it grows with every row that is written. */
function sequenceOf(type: SinkType): number {
  const table = type === 'postgres' ? '_sync_counters' : '_sync_meta';
  const [row] = allSampleSinks[type].ledger(folder, `SELECT seq FROM ${table}`) as readonly { seq: number }[];
  return row?.seq ?? -1;
}
