import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../src/core/names.ts';
import type { MaskRule, MaskRules } from '../../src/definitions/mask/masks.ts';
import { maskGaps, openRecordMask } from '../../src/settings/mask-settings.ts';
import { builtInDefinition } from '../support/sample-service.ts';

const mailing = builtInDefinition('email-marketing');
const read = mailing.entities;
const hash: MaskRule = { kind: 'hash', as: 'email' };
const drop: MaskRule = { kind: 'drop' };

function gaps(
  entity: string,
  fields: Record<string, MaskRule>,
  undeclared: readonly string[] = [],
  unknownFields: MaskRules['unknownFields'] = 'keep',
): readonly string[] {
  const rules: MaskRules = { fields: new Map(Object.entries(fields)), unknownFields };
  const masks = new Map([[entity as EntityName, { rules, mask: openRecordMask(rules, null) }]]);
  const met = undeclared.map((field) => ({ entity: entity as EntityName, field }));
  return maskGaps(mailing, read, masks, met).map(({ detail }) => detail);
}

describe('what a mask leaves open', () => {
  it('are fields that give a masked value away', () => {
    expect(gaps('list_members', { email_address: hash })).toEqual([
      'id is stored in clear and gives email_address away',
      'unique_email_id is stored in clear and gives email_address away',
    ]);
    expect(gaps('list_members', { email_address: hash, unique_email_id: hash })).toEqual([
      'id is stored in clear and gives email_address away',
    ]);
    expect(gaps('list_members', { ip_signup: drop })).toEqual([]);
    expect(gaps('reports', { facebook_likes: drop })).toEqual([
      'social_likes is stored in clear and gives facebook_likes away',
    ]);
  });

  it('are fields of other records that hold the same values', () => {
    expect(gaps('segment_members', { id: hash })).toEqual([
      'id is masked, and the same values are in clear in list_members.id, email_activity.email_id, unsubscribes.email_id',
    ]);
    expect(gaps('reports', { list_id: hash }).join()).toContain(
      'list_id is masked, and the same values are in clear in lists.id, ',
    );
    expect(gaps('reports', { list_id: drop })).toEqual([]);
  });

  it('are undeclared fields that came and that no rule covers', () => {
    expect(gaps('list_members', { ip_signup: drop }, ['nickname', 'a"b'])).toEqual([
      'no rule covers undeclared fields that came: "nickname", "a\\"b"',
    ]);
    const covered: Record<string, MaskRule> = { ip_signup: drop, nickname: drop, 'company.name': drop };
    expect(gaps('list_members', covered, ['nickname', 'company'])).toEqual([]);
    expect(gaps('automations', { id: { kind: 'keep' } }, ['nickname'], 'drop')).toEqual([]);
  });

  it('are rules for fields that the definition does not declare and that have not come', () => {
    expect(gaps('list_members', { ip_singup: drop, 'merge_fields.*': drop, '*.email': drop })).toEqual([
      'the definition declares no such field, and none has come: ip_singup',
    ]);
  });
});
