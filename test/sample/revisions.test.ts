import { describe, expect, it } from 'vitest';
import { sampleTruth } from '../support/sample-truth.ts';
import { definitions } from '../support/service/served-api.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { maxSampleRevision, revisionTime } from '../../src/sample/sample-values.ts';
import { isLong } from '../support/trials.ts';

const names = [...definitions.keys()];
const entitiesOf = (name: string): readonly string[] => [...(definitions.get(name)?.entities.keys() ?? [])];
const open = (definitionName: string, revision: number, size: 'tiny' | 'small' = 'small'): SampleAccount =>
  createSampleAccount({ definitionName, seed: 7, size, revision });
/** Of the mailing account nearly all rows are events of its members. */
const sizeOf = (name: string): 'tiny' | 'small' => (isLong || name !== 'email-marketing' ? 'small' : 'tiny');
const rows = (account: SampleAccount, entity: string) => [...sampleTruth(account, entity)];
const records = (account: SampleAccount, entity: string): readonly JsonObject[] =>
  rows(account, entity).map(({ record }) => record);

describe.each(names)('a revision of %s', (name) => {
  it('is the account without revisions if it is 0', () => {
    const plain = createSampleAccount({ definitionName: name, seed: 7, size: sizeOf(name) });
    for (const entity of entitiesOf(name)) {
      expect(rows(open(name, 0, sizeOf(name)), entity)).toEqual(rows(plain, entity));
    }
  });

  it('is the same whenever it is made, and another for another seed', () => {
    for (const entity of entitiesOf(name)) {
      const first = rows(open(name, 20, 'tiny'), entity);
      expect(first.length).toBeGreaterThan(0);
      expect(rows(open(name, 20, 'tiny'), entity)).toEqual(first);
      const other = createSampleAccount({ definitionName: name, seed: 8, size: 'tiny', revision: 20 });
      expect(rows(other, entity)).not.toEqual(first);
    }
  });

  it('lies in the past, behind everything of the revisions before it', () => {
    const times = (revision: number): readonly number[] =>
      entitiesOf(name).flatMap((entity) =>
        [...JSON.stringify(rows(open(name, revision, 'tiny'), entity)).matchAll(isoTimes)].map(([time]) =>
          Date.parse(`${time}Z`),
        ),
      );
    expect(Math.max(...times(0))).toBeLessThan(revisionTime(1));
    for (const revision of [1, 2, 9, 20]) {
      const newest = Math.max(...times(revision));
      expect(newest).toBeGreaterThan(revisionTime(revision));
      // A report has a timeseries over the day after the campaign was sent.
      expect(newest).toBeLessThan(revisionTime(revision + 2));
    }
    expect(revisionTime(maxSampleRevision)).toBeLessThan(Date.UTC(2026, 10, 1));
  });

  it('has every listed record of every entity with get under its key, and no other', () => {
    for (const revision of isLong ? [1, 3, 10] : [3]) {
      const account = open(name, revision, sizeOf(name));
      const before = open(name, revision - 1, sizeOf(name));
      for (const [entity, key] of gets(name)) {
        const keyed = (account_: SampleAccount): ReadonlyMap<string, JsonObject> =>
          new Map(
            records(account_, entity).map((record) => [
              JSON.stringify(Object.fromEntries(key.map(([param, field]) => [param, record[field]]))),
              record,
            ]),
          );
        const listed = keyed(account);
        // Each of them: `npm run test:long`.
        const asked = [...listed].filter((_, index) => isLong || index % 7 === 0);
        for (const [params, record] of asked) {
          expect({ ...account.get(entity, JSON.parse(params) as JsonObject), request_id: null }).toEqual({
            ...record,
            request_id: null,
          });
        }
        for (const params of keyed(before).keys()) {
          if (listed.has(params)) continue;
          const left = getOrNull(account, entity, JSON.parse(params) as JsonObject);
          // A page that moved to the top is still a block of its own.
          if (left?.['type'] === 'child_page') expect(left['parent']).toMatchObject({ type: 'workspace' });
          else if (left !== null) expect(left).toMatchObject({ in_trash: true, archived: true });
        }
      }
    }
  });
});

const isoTimes = /\d{4}-\d\d-\d\dT[\d:]{8}/g;

/** Entities with `get`, and the parameters that it takes from a record. */
function gets(name: string): readonly (readonly [string, readonly (readonly [string, string])[]])[] {
  return [...(definitions.get(name)?.entities.values() ?? [])].flatMap((entity) => {
    const key = [...(entity.actions.get('get')?.key ?? [])];
    return key.length === 0 ? [] : [[entity.name, key] as const];
  });
}

/** Null also where the list that a record was in is gone. */
function getOrNull(account: SampleAccount, entity: string, params: JsonObject): JsonObject | null {
  try {
    return account.get(entity, params);
  } catch (error) {
    expect(error).toMatchObject({ status: 404 });
    return null;
  }
}
