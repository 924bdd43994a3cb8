import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject } from '../../src/core/json.ts';
import type { EntityTable } from '../../src/core/records.ts';
import { text } from '../support/service/served-api.ts';
import type { Row } from '../support/expected-rows.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { builtInDefinition, sampleConnectors, tablesOf } from '../support/sample-service.ts';
import { allSampleSinks } from '../support/all-sample-sinks.ts';
import { killedSync } from '../support/killed-sync.ts';
import { sameRow } from '../support/same-row.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { entityNamed, testCredentials } from '../support/sync-once.ts';
import { hasMoreKills, repeats, startSeed } from '../support/trials.ts';

const killsPerWorld = Math.ceil(repeats('KILLS', { share: 100, full: 100 }) / 4);
const seed = startSeed();
/** The larger account takes minutes: only with SIZE=small. */
const size = process.env['SIZE'] === 'small' ? 'small' : 'tiny';
const revisions = 10;

type SinkType = keyof typeof allSampleSinks;

describe.runIf(hasMoreKills).each(Object.keys(allSampleSinks) as SinkType[])(
  'revisions synced into %s by runs that are killed',
  (type) => {
    // Proves promise 2
    it.each(sampleConnectors)(
      `%s: end where the account is (${killsPerWorld} kills, seed ${seed})`,
      async (connectorId, definitionName) => {
        await using world = await openRevisionWorld({ definitionName, sink: type, size });
        const random = seededRandom(seed);
        const config = writeConfig(world, type, connectorId);
        const killedAfter = new Map<string, number>();
        const sync = async (flags: readonly string[], afterMs: number | null): Promise<number | null> => {
          const { code, phase, stderr } = await killedSync(config, definitionName, flags, afterMs);
          if (code === null) killedAfter.set(phase, (killedAfter.get(phase) ?? 0) + 1);
          else expect({ code, stderr, seed }).toEqual({ code: 0, stderr, seed });
          return code;
        };
        await sync([], null);
        let kills = 0;
        for (let revision = 1; revision <= revisions; revision += 1) {
          world.moveTo(revision);
          const isFull = revision % 3 === 0 || revision === revisions;
          const killsNow = Math.ceil((killsPerWorld * revision) / revisions) - kills;
          for (let done = 0; done < killsNow;) {
            const code = await sync(isFull ? ['--full'] : [], random() * (isFull ? 200 : 60));
            expect({ seed, revision, ahead: watermarksAhead(world, type) }).toEqual({
              seed,
              revision,
              ahead: [],
            });
            if (code === null) done += 1;
            else if (random() < 0.3) break;
          }
          kills += killsNow;
          await sync(isFull ? ['--full'] : [], null);
          expect({ seed, revision, lost: lostFrom(world) }).toEqual({ seed, revision, lost: [] });
        }
        await sync(['--full'], null);
        expect({ seed, lost: lostFrom(world), alive: stillStored(world) }).toEqual({
          seed,
          lost: [],
          alive: [],
        });
        console.log(
          `${type} ${definitionName}: killed after ${[...killedAfter].map(([phase, times]) => `${phase} ${times}`).join(', ')} (seed ${seed})`,
        );
      },
      300_000,
    );
  },
);

function writeConfig(world: RevisionWorld, type: SinkType, connectorId: string): string {
  const config = path.join(world.folder, 'config.yaml');
  writeFileSync(
    config,
    [
      `api: { baseUrl: "${world.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }`,
      `sinks: { test: ${JSON.stringify(allSampleSinks[type].settings(world.folder))} }`,
      // Days of changes pass in seconds: the guards would take them for one day's.
      `guards: { maxDeleteShare: 1 }`,
      `connectors:`,
      `  ${world.definitionName}: { definition: ${world.definitionName}, id: ${connectorId}, sink: test, rateLimit: { requestsPerSecond: 1000 } }`,
    ].join('\n'),
  );
  return config;
}

/** Records of the account that are not stored as they are. */
function lostFrom(world: RevisionWorld): string[] {
  const truth = world.truth();
  return tablesOf(world.definitionName).flatMap((table) => {
    const stored = world.stored(table);
    return [...(truth.get(table.entity) ?? [])].flatMap(([key, row]) => {
      const found = stored.get(key);
      const isStored = found !== undefined && sameRow(lasting(table, found), lasting(table, row));
      return isStored ? [] : [`${table.entity} ${key}`];
    });
  });
}

/** Without a list's counters: where nothing else changes they are stored again after a day only. */
function lasting({ entity }: EntityTable, row: Row): Row {
  return entity === 'lists' ? { ...row, columns: { ...row.columns, stats: null } } : row;
}

/** Rows that are alive in the sink and gone from the account; what is in the trash stays, with what is below it. */
function stillStored(world: RevisionWorld): string[] {
  const truth = world.truth();
  return tablesOf(world.definitionName).flatMap((table) =>
    [...world.stored(table)].flatMap(([key, { columns }]) => {
      if (truth.get(table.entity)?.has(key) === true) return [];
      const parent = columns['parent'] ?? null;
      const page = columns['page_id'] ?? (isJsonObject(parent) ? parent['page_id'] : undefined);
      const isKept =
        world.isTrashed(table.entity, text(columns['id'])) ||
        (table.entity !== 'pages' && typeof page === 'string' && world.isTrashed('pages', page));
      return isKept ? [] : [`${table.entity} ${key}`];
    }),
  );
}

/** Where the value of a record stands that an incremental walk of its entity goes by. */
const changeFields = [
  { entity: 'list_members', field: 'last_changed', param: 'list_id' },
  { entity: 'pages', field: 'last_edited_time', param: null },
  { entity: 'data_sources', field: 'last_edited_time', param: null },
] as const;

interface Watermark {
  readonly params: string;
  readonly watermark: string;
}

/** Records that a watermark says are stored and that are not. */
function watermarksAhead(world: RevisionWorld, type: SinkType): string[] {
  const truth = world.truth();
  return changeFields.flatMap(({ entity, field, param }) => {
    const rows = truth.get(entity);
    if (rows === undefined) return [];
    const stored = world.stored(entityNamed(builtInDefinition(world.definitionName), entity).table);
    const marks = allSampleSinks[type].ledger(
      world.folder,
      `SELECT params, watermark FROM _sync_partitions WHERE entity = '${entity}' AND watermark IS NOT NULL`,
    ) as readonly Watermark[];
    return marks.flatMap(({ params, watermark }) =>
      [...rows].flatMap(([key, row]) => {
        const ofPartition =
          param === null || (JSON.parse(params) as JsonObject)[param] === row.columns[param];
        const value = Date.parse(text(row.columns[field]));
        const found = stored.get(key);
        const isStored = found !== undefined && sameRow(found, row);
        return !ofPartition || isStored || !(value <= Date.parse(watermark)) ? [] : [`${entity} ${key}`];
      }),
    );
  });
}
