import { describe, expect, it } from 'vitest';
import { noCounts } from '../../src/core/records.ts';
import type { EntityName } from '../../src/core/names.ts';
import { wholeEntities } from '../../src/engine/sync-connector.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { allEntities, chosenEntities } from '../support/sync-once.ts';
import type { ChosenEntities } from '../../src/engine/chosen-entities.ts';

const mailing = builtInDefinition('email-marketing');

/** The entities that count as whole when something was left out of those named. */
function wholeWithout(leftOut: readonly string[], chosen: ChosenEntities = allEntities(mailing)): string[] {
  const names: readonly EntityName[] = [...mailing.entities.values()]
    .filter(({ name }) => chosen.has(name))
    .flatMap(({ name, explodedTable }) => (explodedTable === null ? [name] : [name, explodedTable.entity]));
  const reports = names.map((entity) => ({
    entity,
    counts: noCounts,
    pages: 1,
    proofs: { single: 1, seam: 0, token: 0, keyset: 0 },
    setAside: 0,
    unordered: 0,
    extraFields: 0,
    depthLimited: 0,
    foreign: 0,
    partial: 0,
    incremental: 0,
    deleted: 0,
    withheld: 0,
    pending: 0,
    toConfirm: 0,
    withdrawn: 0,
    withheldBecause: null,
    withholding: null,
    isProven: true,
    isWhole: !leftOut.includes(entity),
  }));
  return wholeEntities(mailing, chosen, reports, new Set()).flatMap(({ entity, isWhole }) =>
    isWhole ? [entity] : [],
  );
}

describe('an entity is whole', () => {
  it('when nothing was left out anywhere', () => {
    expect(wholeWithout([])).toContain('email_activity_events');
    expect(wholeWithout([]).length).toBe(mailing.entities.size + 1);
  });

  // Proves promise 11.3
  it('not when something is missing of what leads to it, at whatever distance', () => {
    const whole = wholeWithout(['lists']);
    expect(whole).toContain('campaigns');
    for (const below of ['lists', 'list_members', 'segments', 'segment_members']) {
      expect(whole).not.toContain(below);
    }
  });

  it('not when its rows are made of elements of an entity that is not', () => {
    expect(wholeWithout(['email_activity'])).not.toContain('email_activity_events');
  });

  it('whatever is missing of entities beside and below it', () => {
    expect(
      wholeWithout(['list_members'], chosenEntities(mailing, ['lists', 'list_members', 'segments'])),
    ).toEqual(['lists', 'segments']);
  });
});
