import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { readServiceFile } from '../../../src/definitions/import/service-file.ts';
import { it } from '../../support/it.ts';
import { importText, outcomeOf, serviceText } from '../../support/import/miniature.ts';

const onePage = { 'x-airbyte-no-pagination': 'All of them come in a single response.' };
const listings = { things: { more: onePage } };
const sound = serviceText({ listings });

const files: readonly (readonly [string, string, RegExp])[] = [
  ['no OpenAPI document', 'name: x', /expected a connector\.yaml/],
  ['a list', '[1, 2]', /expected a connector\.yaml/],
  ['no listing', JSON.stringify({ ...(JSON.parse(sound) as object), paths: {} }), /x-airbyte-action: list/],
  ['nesting without end', '['.repeat(200_000), /nesting|YAML/],
  [
    'a bomb of aliases',
    [
      'a0: &a0 [x, x, x, x, x, x, x, x]',
      ...Array.from(
        { length: 12 },
        (_, at) => `a${at + 1}: &a${at + 1} [${Array(8).fill(`*a${at}`).join(', ')}]`,
      ),
    ].join('\n'),
    /at most 2000000 values/,
  ],
  ['an anchor within itself', 'a: &a [*a]', /inside its own anchor/],
  [
    'a reference out of the file',
    withSchema({ $ref: 'https://evil.example/schema.json' }),
    /nothing is downloaded/,
  ],
  ['a reference to a file', withSchema({ $ref: './other.yaml#/x' }), /nothing is downloaded/],
  ['a reference to nothing', withSchema({ $ref: '#/components/schemas/None' }), /there is no #\/components/],
  ['references in a circle', withSchema({ $ref: '#/components/schemas/B' }), /in a circle/],
  [
    'a name with a path in it',
    serviceText({ listings, info: { 'x-airbyte-connector-name': '../../etc' } }),
    /expected lower-case words/,
  ],
  ['no id', serviceText({ listings, info: { 'x-airbyte-connector-definition-id': 'x' } }), /UUID/],
  ['a key that reaches a prototype', `${sound.slice(0, -1)}, "__proto__": {}}`, /reserved/],
];

function withSchema(schema: object): string {
  const schemas = { A: schema, B: { $ref: '#/components/schemas/A' } };
  return JSON.stringify({ ...(JSON.parse(sound) as object), components: { schemas } });
}

describe('a file that cannot be read', () => {
  it.for(files)('with %s is named with the reason', ([, text, expected], { folder }) => {
    const file = join(folder, 'connector.yaml');
    writeFileSync(file, text);
    expect(() => readServiceFile(file)).toThrow(expected);
  });

  it('of 100 MB is not read', ({ folder }) => {
    const file = join(folder, 'connector.yaml');
    writeFileSync(file, '');
    truncateSync(file, 100_000_000);
    expect(() => readServiceFile(file)).toThrow(/at most 16777216 bytes, got 100000000/);
  });

  it('is read in linear time where schemas contain themselves many times', ({ folder }) => {
    const inner = Object.fromEntries(
      Array.from({ length: 300 }, (_, at) => [`p${at}`, { $ref: '#/components/schemas/A' }]),
    );
    const all = Array.from({ length: 300 }, () => ({ $ref: '#/components/schemas/A' }));
    const schemas = { A: { type: 'object', properties: inner, allOf: all } };
    const more = {
      ...onePage,
      requestBody: { content: { 'application/json': { schema: { properties: inner } } } },
    };
    const listing = { method: 'post', extractor: '$', more, record: inner } as const;
    const text = JSON.parse(serviceText({ listings: { things: listing } })) as { components: object };
    const file = JSON.stringify({ ...text, components: { ...text.components, schemas } });
    expect(outcomeOf(importText(folder, file, 'direct'))).toMatch(/^asked: key/);
  });

  it('of another place is a clear error', ({ folder }) => {
    expect(() => readServiceFile(join(folder, 'none.yaml'))).toThrow(/cannot be read/);
  });
});

describe('a hostile part of a file', () => {
  const addresses = [
    'http://api.corner-shop.example',
    'https://user:secret@api.corner-shop.example',
    'https://api.corner-shop.example/v1?x=',
    'file:///etc/passwd',
    'https://api.corner-shop.example/{x}',
    'javascript:alert(1)',
  ];

  it.for(addresses)('refuses the address %s', (url, { folder }) => {
    const text = serviceText({ listings, servers: [{ url, variables: { x: {} } }] });
    expect(outcomeOf(importText(folder, text, 'direct'))).toMatch(
      /^refused: not a valid definition: upstream\.baseUrl/,
    );
  });

  it('refuses an entity whose name is no table', ({ folder }) => {
    const imported = importText(
      folder,
      serviceText({ listings: { ...listings, 'drop table': { more: onePage } } }),
      'hosted',
    );
    expect(outcomeOf(imported, 'drop table')).toMatch(/^refused: its name/);
    expect(outcomeOf(imported)).toBe('converted');
  });

  it('keeps texts of the file within one comment', ({ folder }) => {
    const reason = 'All of them.\nevil: true\u2028more: true\u0007';
    const imported = importText(
      folder,
      serviceText({ listings: { things: { more: { 'x-airbyte-no-pagination': reason } } } }),
      'hosted',
    );
    expect(imported.definition?.text).toContain(
      '# paging: the file says why it has one page: All of them. evil: true more: true\n',
    );
  });

  it('leaves fields undeclared that no column can be named after', ({ folder }) => {
    const record = {
      id: { type: 'string' },
      toString: { type: 'string' },
      'x y': { type: 'string' },
      '1': {},
      constructors: {},
    };
    const text = importText(
      folder,
      serviceText({ listings: { things: { record, more: onePage } } }),
      'hosted',
    ).definition?.text;
    expect(text).toContain('# undeclared, kept in _extra: 1\n');
    expect(text).toContain('toString: to_string');
  });
});
