import { describe, expect } from 'vitest';
import type { EntityName } from '../../src/core/names.ts';
import type { MaskRule, MaskRules } from '../../src/definitions/record-masks.ts';
import { readSettings, withParts, secretsOf } from '../../src/settings/load-settings.ts';
import { maskGaps, openRecordMask } from '../../src/settings/mask-settings.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { goodConfig, it, type ConfigFolder } from '../support/settings/config-folder.ts';

describe('masks', () => {
  const key = 'mask:\n  key: "${MASK_KEY}"\n';
  const withMask = (mask: string, head = key): string => `${head}${goodConfig}    mask: ${mask}\n`;

  let folder: ConfigFolder;
  it.beforeEach(({ configs }) => {
    folder = configs;
    folder.env['MASK_KEY'] = Buffer.alloc(32, 7).toString('base64');
  });

  function connector(config: string) {
    const [found] = folder.load(config).connectors.values();
    if (found === undefined) throw new Error('no connector');
    return found;
  }

  function columnsOf(config: string, entity: string) {
    const columns = connector(config).definition.entities.get(entity as EntityName)?.table.columns ?? [];
    return Object.fromEntries(columns.map(({ name, type }) => [name, type]));
  }

  describe('mask', () => {
    it('leaves a connector without it as its definition is', () => {
      const { definition, masks } = connector(`${key}${goodConfig}`);
      expect(masks.size).toBe(0);
      expect([...definition.entities.values()].every(({ mask }) => mask === null)).toBe(true);
      expect(
        connector(withMask('{ list_members: { fields: { ip_signup: drop } } }')).definition.contentHash,
      ).not.toBe(definition.contentHash);
    });

    it('makes a text column of what is hashed or truncated', () => {
      const mask =
        '{ list_members: { fields: { vip: hash, member_rating: { truncate: 1 }, merge_fields: hash, location: drop } } }';
      expect(columnsOf(withMask(mask), 'list_members')).toMatchObject({
        vip: 'string',
        member_rating: 'string',
        merge_fields: 'string',
        location: 'object',
      });
    });

    it('hashes parts of keys that no call needs, where all fields with the same values are masked', () => {
      const others = 'list_members: { fields: { id: keep } }, unsubscribes: { fields: { email_id: hash } }';
      const mask = `{ segment_members: { fields: { id: hash } }, email_activity: { fields: { email_id: hash } }, ${others} }`;
      const { definition } = connector(withMask(mask));
      const idOf = (entity: string, field: string): unknown =>
        definition.entities.get(entity as EntityName)?.mask?.record({ [field]: 'c4d2' });
      const hashed = (idOf('segment_members', 'id') as { id: string }).id;
      expect(hashed).toMatch(/^hmac-/);
      expect(idOf('email_activity', 'email_id')).toEqual({ email_id: hashed });
      expect(idOf('unsubscribes', 'email_id')).toEqual({ email_id: hashed });
      // What is not read has no table with the values.
      const few = withMask('{ email_activity: { fields: { email_id: hash } } }').replace(
        /( +)definition: .*\n/,
        '$&$1include: [campaigns, email_activity]\n',
      );
      expect(connector(few).masks.size).toBe(1);
    });

    it('masks with the same rules and key alike, and with another key in another way', () => {
      const config = withMask('{ list_members: { fields: { email_address: { hash: { as: email } } } } }');
      const maskOf = () => connector(config).definition.entities.get('list_members' as EntityName)?.mask;
      const [first, again] = [maskOf(), maskOf()];
      const record = { email_address: 'Ann@example.com' };
      const hashed = first?.record(record) as typeof record;
      expect(hashed.email_address).toMatch(/^hmac-[0-9a-f]{8}-[0-9a-f]{64}$/);
      expect(again?.record({ email_address: 'ann@example.com ' })).toEqual(hashed);
      expect(again?.fingerprint).toBe(first?.fingerprint);
      expect(first?.stored(hashed)).toBe(hashed);
      expect(first?.stored(record)).toEqual(hashed);
      const sealed = first?.seal('{"kind":"x"}') ?? '';
      expect(again?.open(sealed)).toBe('{"kind":"x"}');

      folder.env['MASK_KEY'] = Buffer.alloc(32, 8).toString('base64');
      const other = maskOf();
      expect(other?.record(record)).not.toEqual(hashed);
      expect(other?.fingerprint).not.toBe(first?.fingerprint);
      expect(other?.open(sealed)).toBeNull();
      expect(other?.rawKey('s')).not.toBe(first?.rawKey('s'));
    });

    it.each(
      Object.entries({
        'list_membres: { fields: {} }':
          'mask.list_membres: no such entity in email-marketing: "list_membres"; did you mean "list_members"?',
        'list_members: { fields: { email_address: hsah } }':
          'expected keep, drop, hash, { hash: { as: email } }',
        'list_members: { fields: { a..b: drop } }': 'expected at most 20 names joined by dots',
        'list_members: { fields: { merge_fields: hash, merge_fields.PHONE: drop } }':
          'has no effect: merge_fields masks all',
        'list_members: { fields: { id: hash } }':
          'expected id as it comes, got hash: it is needed to ask for a single record; keep it',
        'list_members: { fields: { last_changed: drop } }':
          'it is the change value that changes are asked for by; keep it',
        'list_members: { unknownFields: drop }': 'expected id as it comes, got drop',
        'lists: { fields: { id: hash } }': 'expected id as it comes, got hash',
        'list_members: { fields: { list_id: hash } }':
          'it is filled in from what the listing is asked for by',
        'email_activity: { fields: { activity.timestamp: { truncate: 4 } } }':
          'expected activity.timestamp as it comes',
        'segment_members: { fields: { id: hash } }, email_activity: { fields: { email_id: { hash: { as: email } } } }':
          'mask.segment_members: id is masked, and fields of other records hold the same values: add list_members: { fields: { id: keep } } (it is needed to ask for a single record), email_activity: { fields: { email_id: hash } }, unsubscribes: { fields: { email_id: hash } }; or keep id',
        'tags: { fields: { id: hash } }':
          'add segments: { fields: { id: keep } } (it is needed to ask for a single record); or keep id',
      }),
    )('refuses { %s }', (mask, expected) => {
      expect(folder.problems(withMask(`{ ${mask} }`)).join('\n')).toContain(expected);
    });

    it.each([
      ['', 'mask.key: is missing; expected a key'],
      ['mask: { key: short }\n', 'mask.key: expected a key of 32 bytes'],
      ['mask: { key: "<secret-that-is-missing-here>" }\n', 'mask.key: expected a key of 32 bytes'],
    ])('refuses %j beside it', (head, expected) => {
      const problems = folder.problems(withMask('{ list_members: { fields: { ip_signup: hash } } }', head));
      expect(problems.join('\n')).toContain(expected);
      expect(problems.join('\n')).not.toContain('short');
    });

    it('lets commands that read what is stored work without its key, and asks for it where a service is read', () => {
      folder.env['MASK_KEY'] = undefined;
      const config = withMask('{ list_members: { fields: { email_address: hash } } }');
      const settings = readSettings({ file: folder.write('config.yaml', config), env: folder.env });
      expect(() => withParts(settings, 'access')).toThrow(/MASK_KEY is not set/);
      const [found] = settings.connectors.values();
      expect(() => found?.definition.entities.get('list_members' as EntityName)?.mask?.record({})).toThrow(
        /mask.key/,
      );
    });

    it('is shown by config show, without the key', () => {
      const mask =
        '{ list_members: { unknownFields: keep, fields: { email_address: { hash: { as: email } }, ip_signup: { truncate: 3 } } } }';
      const settings = folder.load(withMask(mask));
      expect(folder.view(withMask(mask))).toMatchObject({
        mask: { key: '[secret]' },
        connectors: {
          newsletter: {
            mask: {
              list_members: {
                fields: { email_address: { hash: { as: 'email' } }, ip_signup: { truncate: 3 } },
                unknownFields: 'keep',
              },
            },
          },
        },
      });
      expect(secretsOf(settings).map((secret) => secret.reveal())).toContain(folder.env['MASK_KEY']);
    });
  });
});

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
