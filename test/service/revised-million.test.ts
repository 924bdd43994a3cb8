import { beforeEach, expect, it, vi } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { revisionTime } from '../../src/sample/revision-time.ts';
import { createSampleAccount } from '../../src/sample/sample-account.ts';
import type * as People from '../../src/sample/people.ts';
import { text } from './served-api.ts';

/** Every record of a member asks for its person once. */
const made = vi.hoisted(() => ({ persons: 0 }));
vi.mock('../../src/sample/people.ts', async (importOriginal) => {
  const people = await importOriginal<typeof People>();
  return {
    ...people,
    personAt: (...person: Parameters<typeof people.personAt>) => {
      made.persons += 1;
      return people.personAt(...person);
    },
  };
});

const revision = 10;
const members = 1_000_000;
const account = createSampleAccount({
  definitionName: 'email-marketing',
  seed: 7,
  size: { members },
  revision,
});
const [list] = account.list('lists', {}).slice(0, 1);
const list_id = list?.['id'] ?? null;
const page = (params: JsonObject, offset: number, limit: number): readonly JsonObject[] =>
  account.list('list_members', { list_id, ...params }).slice(offset, limit);
const changed = (of: readonly JsonObject[]): readonly string[] =>
  of.map(({ last_changed }) => text(last_changed));

beforeEach(() => {
  made.persons = 0;
});

it('made none of a million members to come to its tenth revision', () => {
  const fresh = createSampleAccount({
    definitionName: 'email-marketing',
    seed: 8,
    size: { members },
    revision,
  });
  const [own] = fresh.list('lists', {}).slice(0, 1);
  expect([own?.['name'], made.persons]).toEqual(['Customers (renamed 8)', 0]);
});

it('makes the records of a page and no other, however deep it lies and in every order', () => {
  let expected = 0;
  for (const sort_field of ['last_changed', 'timestamp_opt', 'timestamp_signup']) {
    for (const sort_dir of ['ASC', 'DESC']) {
      for (const offset of [0, 700_000, 990_000]) {
        expect(page({ sort_field, sort_dir }, offset, 100)).toHaveLength(100);
        expected += 100;
        expect(made.persons).toBe(expected);
      }
    }
  }
});

it('finds what changed since a revision, all of it and in order', () => {
  const since_last_changed = new Date(revisionTime(revision)).toISOString();
  const params = { sort_field: 'last_changed', sort_dir: 'ASC', since_last_changed };
  const first = page(params, 0, 1_000);
  expect([first.length, made.persons]).toEqual([1_000, 1_000]);
  expect(changed(first)).toEqual(changed(first).toSorted());
  expect(Date.parse(changed(first)[0] ?? '')).toBeGreaterThan(revisionTime(revision));
  // About one in a hundred.
  expect(page(params, 8_000, 1)).toHaveLength(1);
  expect(page(params, 12_000, 1)).toHaveLength(0);
  const unsorted = page({ since_last_changed }, 0, 100);
  expect(unsorted.every((member) => Date.parse(text(member['last_changed'])) > revisionTime(revision))).toBe(
    true,
  );
});
