import { expect, it } from 'vitest';
import type { EntityName } from '../../../src/core/names.ts';
import type { EntityReport } from '../../../src/sinks/run-report.ts';
import { agreesWithStored, keptSince, readWhole } from '../../../src/sinks/ledger/runs/ledger-runs.ts';

const [lists, members, tags] = ['lists', 'members', 'members_tags'].map((name) => name as EntityName) as [
  EntityName,
  EntityName,
  EntityName,
];
const report = (entity: EntityName, isWhole: boolean) =>
  ({ entity, isWhole, isProven: true }) as EntityReport;

it('names the walks of each entity that was read completely', () => {
  const entities = [report(lists, false), report(members, true), report(tags, true)];
  expect(readWhole({ entities }, [lists, members, tags], new Set([lists, members]))).toEqual([
    { entity: members, walked: members },
    { entity: tags, walked: members },
  ]);
});

it('takes adopted rows for those of the new address once a full run misses none', () => {
  const whole = { isWhole: true, isProven: true, withheld: 0, pending: 0 };
  expect(agreesWithStored(whole, true)).toBe(true);
  expect(agreesWithStored(whole, false)).toBe(false);
  expect(agreesWithStored({ ...whole, pending: 1 }, true)).toBe(false);
});

it('keeps runs and quarantined records for 90 days', () => {
  const since = keptSince(Date.parse('2026-04-01T00:00:00Z'));
  expect(since).toEqual({ runs: '2026-01-01T00:00:00.000Z', quarantined: '2026-01-01T00:00:00.000Z' });
});
