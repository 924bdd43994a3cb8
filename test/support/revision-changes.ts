import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import { revisedMembers } from './revised-members.ts';
import {
  kindOfAppearance,
  kindOfChange,
  kindOfLoss,
  type RevisionChangeKind,
} from './revision-change-kinds.ts';
import { createSampleAccount, type SampleAccountOptions } from '../../src/sample/sample-account.ts';
import { sampleTruth, type TruthRecord } from './sample-truth.ts';

/**
 * Keys of what a revision did to an entity, each under one kind. `added`, `revived` (it had been there, and was not just
 * before) and, for members, `moved` are new in the truth. `deleted` and `archived` (in the trash: `get` still returns it)
 * are in it no longer; the old key of a member that moved is deleted. All others differ in the record or in its place:
 * `moved` from one page, block or place among its siblings to another, `archived` where a member's status became that,
 * `changed` for everything else.
 */
export type RevisionChanges = Readonly<Record<RevisionChangeKind, readonly JsonObject[]>>;

type ChangedKey = readonly [RevisionChangeKind, JsonObject];
type Base = Omit<SampleAccountOptions, 'revision'>;

/**
 * What a revision (from 1) did. Members are compared where the revision touched them; of other entities all revisions up
 * to this one are read. Throws as `createSampleAccount` does.
 */
export function revisionChanges(options: Base, entity: string, revision: number): RevisionChanges {
  if (entity === 'list_members') return memberChanges(options, revision);
  let found = collect([]);
  for (const changes of revisionHistory(options, entity, revision)) found = changes;
  return found;
}

/** What the revisions 1 to `last` did, in turn: as `revisionChanges` for each, but reading every revision once. */
export function* revisionHistory(options: Base, entity: string, last: number): Iterable<RevisionChanges> {
  if (entity === 'list_members') {
    for (let revision = 1; revision <= last; revision += 1) yield memberChanges(options, revision);
    return;
  }
  const ever = new Set<string>();
  let before: ReadonlyMap<string, TruthRecord> = new Map();
  for (let revision = 0; revision <= last; revision += 1) {
    const account = createSampleAccount({ ...options, revision });
    const after = new Map(
      Array.from(sampleTruth(account, entity), (row) => [JSON.stringify(keyOf(entity, row)), row] as const),
    );
    if (revision > 0) {
      const rows: ChangedKey[] = [];
      for (const [key, row] of after) {
        const old = before.get(key);
        if (old === undefined) rows.push([kindOfAppearance(ever.has(key)), keyOf(entity, row)]);
        else if (!isSame(old, row)) rows.push([kindOfChange(entity, old, row), keyOf(entity, row)]);
      }
      for (const [key, old] of before) {
        if (!after.has(key)) rows.push([kindOfLoss(account, entity, old.record), keyOf(entity, old)]);
      }
      yield collect(rows);
    }
    for (const key of after.keys()) ever.add(key);
    before = after;
  }
}

function memberChanges({ seed, size }: Base, revision: number): RevisionChanges {
  const members = [...revisedMembers(seed, size, revision)];
  const left = new Set<JsonValue | undefined>(
    members.flatMap(({ before, after }) => (after === null && before !== null ? [before['id']] : [])),
  );
  const rows = members.flatMap(({ before, after, isKnown }): readonly ChangedKey[] => {
    const record = after ?? before;
    if (record === null) return [];
    const key = keyOf('list_members', { record, params: {} });
    if (after === null) return [['deleted', key]];
    if (before === null && !isKnown && left.has(after['id'])) return [['moved', key]];
    if (before === null) return [[kindOfAppearance(isKnown), key]];
    return [[kindOfChange('list_members', { record: before }, { record: after }), key]];
  });
  return collect(rows);
}

const keyFields: Readonly<Record<string, readonly string[]>> = {
  list_members: ['list_id', 'id'],
  tags: ['list_id', 'id'],
  interest_categories: ['list_id', 'id'],
  interests: ['list_id', 'category_id', 'id'],
  segments: ['list_id', 'id'],
  segment_members: ['segment_id', 'id'],
  email_activity: ['campaign_id', 'email_id'],
  unsubscribes: ['campaign_id', 'email_id', 'timestamp'],
};

/** The fields that identify a record, from it or from the parameters that it is listed under. */
function keyOf(entity: string, { record, params }: TruthRecord): JsonObject {
  const fields = keyFields[entity] ?? ['id'];
  return Object.fromEntries(fields.map((name) => [name, record[name] ?? params[name] ?? null]));
}

function isSame(left: TruthRecord, right: TruthRecord): boolean {
  return JSON.stringify([left.record, left.params]) === JSON.stringify([right.record, right.params]);
}

function collect(rows: readonly ChangedKey[]): RevisionChanges {
  const of = (wanted: RevisionChangeKind): readonly JsonObject[] =>
    rows.flatMap(([kind, key]) => (kind === wanted ? [key] : []));
  return {
    added: of('added'),
    changed: of('changed'),
    deleted: of('deleted'),
    archived: of('archived'),
    moved: of('moved'),
    revived: of('revived'),
  };
}
