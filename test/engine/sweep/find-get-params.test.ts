import { describe, expect, it } from 'vitest';
import { findGetParams } from '../../../src/engine/sweep/find-get-params.ts';
import { builtInDefinition } from '../../support/sample-service.ts';
import { entityNamed } from '../../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
const members = entityNamed(mailing, 'list_members');
const interests = entityNamed(mailing, 'interests');
const segments = entityNamed(mailing, 'segments');

describe('the parameters of a get', () => {
  it('come from the key, in the type that the service wants', () => {
    const row = { keyText: '["a1","5d41402abc4b2a76b9719d911017c592"]', inject: {}, params: {} };
    expect(findGetParams(members, row)).toEqual({
      list_id: 'a1',
      subscriber_hash: '5d41402abc4b2a76b9719d911017c592',
    });
  });

  it('come from what the partition fills in, and from its own parameters', () => {
    const parts = keyOf(interests.key, { id: 'i1', category_id: 'c1', list_id: 'a1' });
    const params = { list_id: 'a1', interest_category_id: 'c1' };
    expect(findGetParams(interests, { keyText: parts, inject: {}, params })).toEqual({
      ...params,
      interest_id: 'i1',
    });
  });

  it.each([9007199254740993n, 9007199254740992n])('keep every digit of a number: %s', (id) => {
    const keyText = keyOf(segments.key, { list_id: 'a1', id });
    expect(findGetParams(segments, { keyText, inject: {}, params: { list_id: 'a1' } })).toEqual({
      list_id: 'a1',
      segment_id: String(id),
    });
  });

  it('are not to be had where the entity has no get, or where a part is missing', () => {
    const none = entityNamed(mailing, 'segment_members');
    expect(findGetParams(none, { keyText: '["x"]', inject: {}, params: {} })).toBeNull();
    expect(findGetParams(members, { keyText: '["a1"]', inject: {}, params: {} })).toBeNull();
    expect(findGetParams(members, { keyText: '["a1",null]', inject: {}, params: {} })).toBeNull();
  });

  it('hold what looks like JSON in a key as the text that it is', () => {
    const keyText = '["a,\\"]1","[\\\\\\",\\"x"]';
    expect(findGetParams(members, { keyText, inject: {}, params: {} })).toEqual({
      list_id: 'a,"]1',
      subscriber_hash: '[\\","x',
    });
  });
});

function keyOf(names: readonly string[], values: Readonly<Record<string, string | bigint>>): string {
  const parts = names.map((name) => values[name] ?? null);
  return `[${parts.map((part) => (typeof part === 'bigint' ? String(part) : JSON.stringify(part))).join(',')}]`;
}
