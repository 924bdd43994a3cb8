import { describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject } from '../../src/core/json.ts';
import { text } from '../support/service/served-api.ts';
import type { Row } from '../support/expected-rows.ts';
import { openRevisionWorld, type RevisionWorld, type Rows } from '../support/revision-world.ts';
import { sampleConnectors, tablesOf } from '../support/sample-service.ts';
import { sameRow } from '../support/same-row.ts';
import { isLong, triedSinks } from '../support/trials.ts';

const revisions = isLong ? 10 : 3;
/** In between, the syncs read only what changed. */
const fullAt = new Set([3, 6, 10]);

/** Only a full walk sees their deletes. */
const readByChange = new Set(['list_members', 'pages', 'data_sources', 'documents']);

/** The larger accounts take a minute each: only with SIZE=small. */
const size = process.env['SIZE'] === 'small' ? 'small' : 'tiny';

interface Compared {
  readonly lost: readonly string[];
  readonly different: readonly string[];
  /** Stored, alive, and no longer in the account. */
  readonly undeleted: readonly Undeleted[];
}

interface Undeleted {
  readonly entity: string;
  readonly key: string;
  readonly why: 'in the trash' | 'only a full walk sees it' | 'waiting' | 'no reason';
}

async function compare(world: RevisionWorld): Promise<Compared> {
  const pending = await world.pending();
  const truth = world.truth();
  const lost: string[] = [];
  const different: string[] = [];
  const undeleted: Undeleted[] = [];
  for (const table of tablesOf(world.definitionName)) {
    const expected = truth.get(table.entity) ?? new Map<string, Row>();
    const stored = world.stored(table);
    for (const [key, row] of expected) {
      const found = stored.get(key);
      if (found === undefined) lost.push(`${table.entity} ${key}`);
      else if (!sameRow(found, row)) different.push(`${table.entity} ${key}`);
    }
    for (const [key, row] of stored) {
      if (expected.has(key)) continue;
      const isWaiting = pending.get(table.entity)?.has(key) === true;
      undeleted.push({
        entity: table.entity,
        key,
        why: whyStored(world, truth, table.entity, row, isWaiting),
      });
    }
  }
  return { lost, different, undeleted };
}

/** Blocks and comments stay as long as their page does, attachments as long as their document. */
function whyStored(
  world: RevisionWorld,
  truth: Rows,
  entity: string,
  { columns }: Row,
  isWaiting: boolean,
): Undeleted['why'] {
  const parent = columns['parent'];
  const page =
    entity === 'blocks'
      ? columns['page_id']
      : entity === 'comments' && isJsonObject(parent ?? null)
        ? (parent as JsonObject)['page_id']
        : null;
  const [owner, id] =
    typeof page === 'string'
      ? ['pages', page]
      : entity === 'attachments'
        ? ['documents', text(columns['document_id'])]
        : [entity, text(columns['id'])];
  if (world.isTrashed(owner, id) || world.isTrashed(entity, text(columns['id']))) return 'in the trash';
  if (isWaiting) return 'waiting';
  const isListed = truth.get(owner)?.has(JSON.stringify([id])) === true;
  return readByChange.has(owner) && (owner === entity || !isListed)
    ? 'only a full walk sees it'
    : 'no reason';
}

const names = sampleConnectors.map(([, name]) => name);

describe.each(triedSinks)('revision after revision into %s', (sink) => {
  // Proves promise 2
  it.each(names)(
    '%s: equals the account after every sync, but for deletes that only a full one sees',
    async (definitionName) => {
      await using world = await openRevisionWorld({
        definitionName,
        sink,
        size,
      });
      const lines: string[] = [];
      expect((await world.sync()).outcome).toBe('ok');
      const full = sum(world.takeCalls());
      expect(await compare(world)).toEqual({ lost: [], different: [], undeleted: [] });

      for (let revision = 1; revision <= revisions; revision += 1) {
        world.moveTo(revision);
        const report = await world.sync();
        expect({ revision, outcome: report.outcome, failures: report.failures }).toEqual({
          revision,
          outcome: 'ok',
          failures: [],
        });
        const calls = world.takeCalls();
        const after = await compare(world);
        expect({ revision, lost: after.lost, different: after.different }).toEqual({
          revision,
          lost: [],
          different: [],
        });
        const unexpected = after.undeleted.filter(({ why }) => why === 'no reason');
        expect({ revision, unexpected }).toEqual({ revision, unexpected: [] });
        lines.push(lineOf(revision, calls, report.entities, after));

        if (!fullAt.has(revision)) continue;
        const whole = await world.sync({ isFull: true });
        expect({ revision, outcome: whole.outcome }).toEqual({ revision, outcome: 'ok' });
        world.takeCalls();
        const { lost, different, undeleted } = await compare(world);
        expect({
          revision,
          lost,
          different,
          undeleted: undeleted.filter(({ why }) => why !== 'in the trash'),
        }).toEqual({ revision, lost: [], different: [], undeleted: [] });
        expect(whole.entities.reduce((rows, { withheld }) => rows + withheld, 0)).toBe(0);
      }
      console.log([`${definitionName} into ${sink}, ${full} calls for everything:`, ...lines].join('\n'));
    },
    400_000,
  );
});

function lineOf(
  revision: number,
  calls: ReadonlyMap<string, number>,
  entities: readonly { readonly entity: string; readonly proofs: Readonly<Record<string, number>> }[],
  { undeleted }: Compared,
): string {
  const byEntity = entities
    .map(({ entity, proofs }) => ({ entity, walks: sum(new Map(Object.entries(proofs))) }))
    .filter(({ entity, walks }) => walks > 0 || calls.has(entity))
    .map(({ entity, walks }) => `${entity} ${calls.get(entity) ?? 0}/${walks}`);
  const byReason = new Map<string, number>();
  for (const { entity, why } of undeleted) {
    byReason.set(`${entity} (${why})`, (byReason.get(`${entity} (${why})`) ?? 0) + 1);
  }
  const waiting = [...byReason].map(([what, rows]) => `${what} ${rows}`);
  return `revision ${revision}: ${sum(calls)} calls (calls/walks: ${byEntity.join(', ')}); deletes not yet due: ${waiting.join(', ') || 'none'}`;
}

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}
