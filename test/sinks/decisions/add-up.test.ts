import { expect, it } from 'vitest';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import { noCounts } from '../../../src/core/records.ts';
import { accountingError, checkCounts, countPage } from '../../../src/sinks/decisions/add-up.ts';

const [members, opens] = ['members' as EntityName, 'opens' as EntityName];
const run = 'r1' as RunId;
const three = { ...noCounts, fetched: 3, inserted: 2, unchanged: 1 };

it('refuses a page with a record that is not accounted for', () => {
  expect(() => checkCounts(members, three)).not.toThrow();
  expect(() => checkCounts(members, { ...three, fetched: 4 })).toThrow(
    'A page of "members" does not add up: fetched/filtered/quarantined/inserted/updated/duplicate/unchanged is 4/0/0/2/0/0/1',
  );
});

it('counts what became of a page, with exploded rows and refused records', () => {
  const refused = { entity: members, reason: 'key-missing', detail: '', record: '' } as const;
  const record = { keyText: '', hash: '', volatileHash: null, values: [], extra: null };
  const rows = [
    { entity: members, records: [record] },
    { entity: opens, records: [record, record] },
  ];
  const page = { fetched: 4, filtered: 1, foreign: 1, refused: [refused], rows };
  const [one, two] = [
    { ...noCounts, inserted: 1 },
    { ...noCounts, updated: 1, unchanged: 1 },
  ].map(({ quarantined, inserted, updated, duplicate, unchanged }) => ({
    quarantined,
    inserted,
    updated,
    duplicate,
    unchanged,
  }));
  expect(countPage(page, members, [one ?? noCounts, two ?? noCounts])).toEqual([
    {
      entity: members,
      counts: { ...noCounts, fetched: 4, filtered: 1, duplicate: 1, quarantined: 1, inserted: 1 },
    },
    { entity: opens, counts: { ...noCounts, fetched: 2, updated: 1, unchanged: 1 } },
  ]);
});

it('agrees with a report that says of an entity in parts what was stored of it', () => {
  const one = { ...noCounts, fetched: 1, inserted: 1 };
  const two = { ...noCounts, fetched: 2, inserted: 1, unchanged: 1 };
  const parts = [one, two].map((counts) => ({ entity: members, counts }));
  expect(accountingError(run, [{ entity: members, ...three }], parts)).toBe(null);
  expect(accountingError(run, [], [{ entity: opens, counts: noCounts }])).toBe(null);
});

it('names every entity in which the report and the ledger differ', () => {
  const error = accountingError(run, [{ entity: members, ...three }], [{ entity: opens, counts: three }]);
  expect(error).toMatchObject({ code: 'ACCOUNTING', recovery: 'stop' });
  expect(error?.message).toContain('members: the ledger has 3/0/0/2/0/0/1, the report 0/0/0/0/0/0/0');
  expect(error?.message).toContain('opens: the ledger has 0/0/0/0/0/0/0, the report 3/0/0/2/0/0/1');
});
