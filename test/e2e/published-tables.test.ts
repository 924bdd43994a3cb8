import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { type EntityTable, keyTextOf } from '../../src/core/records.ts';
import { openTarget } from '../../src/publish/open-target.ts';
import type { ConnectorSettings, PublishPlace, PublishSettings } from '../../src/settings/settings.ts';
import type { SinkOptions } from '../../src/sinks/sink-access.ts';
import { openExistingRecords } from '../../src/sinks/registry.ts';
import { untilEnd } from '../contracts/target-contract.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { publishNow } from '../support/publish/publish-now.ts';
import { duckdbTableRows, postgresTableRows, type TableRows } from '../support/publish/read-tables.ts';
import { expectedModelRows } from '../support/publish/stored-model.ts';
import { openRevisionWorld } from '../support/revision-world.ts';
import { sampleSinkOf } from '../support/sample-sinks.ts';
import { builtInDefinition, sampleConnectors } from '../support/sample-service.ts';
import { isLong } from '../support/trials.ts';

const revisions = Number(process.env['REVISIONS'] ?? (isLong ? 9 : 1));
const fullAt = new Set([2, 3, 5, 8]);

/** The sink and the account; a share in `npm test`. */
const all = (['sqlite', 'jsonl', 'postgres'] as const).flatMap((sink) =>
  sampleConnectors.map(([, definition]) => ({ sink, definition })),
);
const tried = isLong ? all : [{ sink: 'sqlite', definition: 'workspace-notes' } as const];

/** Every row that is not deleted, as the sink has it. */
async function sinkRows(
  sink: SinkOptions,
  connector: ConnectorName,
  entity: EntityTable['entity'],
): Promise<{ readonly table: EntityTable; readonly rows: TableRows }> {
  await using reader = await openExistingRecords(sink);
  const table = (await reader?.table(connector, entity)) ?? null;
  if (reader === null || table === null) throw new Error(`The sink has no ${entity}`);
  const rows = new Map();
  for await (const records of reader.changes(connector, table, 0)) {
    for (const record of records) {
      const key = table.key.map(
        (name) => record.values[table.columns.findIndex((one) => one.name === name)] ?? null,
      );
      rows.set(keyTextOf(key), record);
    }
  }
  return { table, rows: expectedModelRows({ connector, generation: 1, ...table, rows }) };
}

describe.each(tried)(
  'tables published from a $sink sink of $definition',
  ({ sink: sinkType, definition: name }) => {
    // Proves promise 20.5
    it('hold what the sink holds after every revision, row by row', async () => {
      const size = name === 'document-library' ? 'small' : 'tiny';
      await using world = await openRevisionWorld({
        definitionName: name,
        sink: sinkType,
        size,
      });
      const server = await sharedPostgres();
      const client = new pg.Client({
        connectionString: server.url,
        types: { getTypeParser: () => (text: string) => text },
      });
      await client.connect();
      onTestFinished(async () => await client.end());
      const connector = name as ConnectorName;
      const sink = (await sampleSinkOf(sinkType)).options(world.folder);
      const schema = `published_${process.pid}_${Date.now()}`;
      const file = join(world.folder, 'desk.duckdb');
      const places: readonly PublishPlace[] = [
        { type: 'postgres', connection: server.connection, schema, deletes: 'mark' },
        { type: 'duckdb', path: file },
      ];
      const definition = builtInDefinition(name);
      const { entities } = definition;
      const connectors = [{ name: connector, definition, entities, sink } as unknown as ConnectorSettings];
      for (let revision = 0; revision <= revisions; revision += 1) {
        world.moveTo(revision);
        const { outcome } = await world.sync(
          fullAt.has(revision) ? { isFull: true, allowDeletes: true } : {},
        );
        expect({ revision, outcome }).toEqual({ revision, outcome: 'ok' });
        for (const place of places) {
          const when = { kind: 'by-hand' } as const;
          const settings: PublishSettings = {
            ...place,
            name: 'desk',
            connectors,
            when,
            snapshotEveryMs: null,
            keepMs: null,
          };
          await using target = await openTarget(settings, { clock: systemClock, signal: untilEnd });
          const end = await publishNow(target, settings);
          if (end.kind !== 'published') throw new Error(`revision ${revision}: ${end.kind}`);
          expect(end.warnings).toEqual([]);
          for (const { entity } of end.published.manifest.entities) {
            const stored = await sinkRows(sink, connector, entity);
            const read = { connector, table: stored.table };
            const found =
              place.type === 'postgres'
                ? await postgresTableRows(client, schema, read)
                : await duckdbTableRows(file, read);
            expect({ revision, entity, rows: found }).toEqual({ revision, entity, rows: stored.rows });
          }
          expect((await target.check(untilEnd)).problems).toEqual([]);
        }
      }
    }, 600_000);
  },
);
