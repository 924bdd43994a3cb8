import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { plainService, readPlainFile } from '../../../src/definitions/import/plain-file.ts';
import { readServiceFile } from '../../../src/definitions/import/service-file.ts';
import { parseDefinition } from '../../../src/definitions/load-definitions.ts';
import { it } from '../../support/it.ts';
import { importText, outcomeOf, serviceText, type Listing } from '../../support/import/miniature.ts';

const onePage = { 'x-airbyte-no-pagination': 'All of them come in a single response.' };
const listings = { things: { more: onePage } };
const sound = serviceText({ listings });

const files: readonly (readonly [string, string, RegExp])[] = [
  ['no OpenAPI document', 'name: x', /expected a connector\.yaml/],
  ['a list', '[1, 2]', /expected a connector\.yaml/],
  ['no listing', JSON.stringify({ ...(JSON.parse(sound) as object), paths: {} }), /x-airbyte-action: list/],
  ['nesting without end', '['.repeat(200_000), /^[^\n]*: expected less nesting in it$/],
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
  ['a key twice', `${sound.slice(0, -1)}, "info": {}}`, /the key "info" is there twice/],
  [
    'a chain of references without end',
    JSON.stringify({
      ...(JSON.parse(sound) as object),
      components: {
        schemas: Object.fromEntries(
          Array.from({ length: 1_000 }, (_, at) => [
            `A${at}`,
            { $ref: `#/components/schemas/A${(at + 1) % 1_000}` },
          ]),
        ),
      },
    }),
    /in a circle or over more than 32 others/,
  ],
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
    expect(outcomeOf(importText(folder, file, 'direct'))).toMatch(/^todo: key/);
  });

  it('of another place is a clear error', ({ folder }) => {
    expect(() => readServiceFile(join(folder, 'none.yaml'))).toThrow(/cannot be read/);
  });
});

describe('a hostile part of a file', () => {
  const addresses = [
    'https://user:secret@api.corner-shop.example',
    'https://api.corner-shop.example/v1?x=',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'https://${HOST}/v1',
    "https://{{ lookup('env', 'HOST') }}/v1",
    'https://$(hostname).example',
  ];

  it.for(addresses)('refuses the address %s', (url, { folder }) => {
    const text = serviceText({ listings, servers: [{ url, variables: { x: {} } }] });
    expect(outcomeOf(importText(folder, text, 'direct'))).toMatch(
      /^refused: not a valid definition: upstream\.baseUrl/,
    );
  });

  it.for(['http://api.corner-shop.example', 'http://169.254.169.254', 'http://10.0.0.1'])(
    'leaves the address %s to the credentials',
    (url, { folder }) => {
      const imported = importText(folder, serviceText({ listings, servers: [{ url }] }), 'direct');
      expect(imported.baseUrl).toBe('https://{address}');
    },
  );

  it('asks what stands for a name in the path, whatever its default says', ({ folder }) => {
    const url = 'https://{x}.corner-shop.example/{x}/{y}';
    const variables = { x: { default: 'elsewhere.example/' }, y: { default: '../demo' } };
    const imported = importText(folder, serviceText({ listings, servers: [{ url, variables }] }), 'direct');
    expect(imported.definition?.text).toMatch(/# TODO .*what stands for x .*what stands for y /);
    expect(imported.baseUrl).toBe('https://{x}.corner-shop.example/todo/todo');
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
    const reason = 'It paginates via others.\nevil: true\u2028more: true\u0007';
    const imported = importText(
      folder,
      serviceText({ listings: { things: { more: { 'x-airbyte-no-pagination': reason } } } }),
      'hosted',
    );
    expect(imported.definition?.text).toMatch(
      /# TODO .*has one page \("It paginates via others\. evil: true more: true"\): .*\n {4}pagination:/,
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
    expect(text).toContain('fields: { id: string, to_string: string, x_y: string, constructors: any }');
    expect(text).toContain('toString: to_string');
  });

  const templates: readonly (readonly [string, Listing, RegExp])[] = [
    ['in a path', { path: '/${HOME}/things', more: onePage }, /^todo: value/],
    [
      'in a path, with braces',
      { path: "/{{ lookup('file', '/etc/passwd') }}", more: onePage },
      /^refused: its path holds/,
    ],
    [
      'in a default',
      { params: { q: { schema: { type: 'string', default: "{{ lookup('env') }}" } } }, more: onePage },
      /^todo: value .*a template computes its default/,
    ],
    ['in a place of records', { extractor: '${items}', more: onePage }, /^refused: the place of its records/],
  ];

  it.for(templates)('runs no template %s', ([, listing, expected], { folder }) => {
    expect(outcomeOf(importText(folder, serviceText({ listings: { things: listing } }), 'direct'))).toMatch(
      expected,
    );
  });

  it('keeps a text that another program would fill as it is', ({ folder }) => {
    const params = { q: { schema: { type: 'string', default: '${AWS_SECRET_ACCESS_KEY}' } } };
    const imported = importText(
      folder,
      serviceText({ listings: { things: { params, more: onePage } } }),
      'direct',
    );
    const { definition } = parseDefinition('x.yaml', imported.definition?.text ?? '');
    expect(definition?.entities.get('things' as never)?.fixedParams).toMatchObject({
      q: '${AWS_SECRET_ACCESS_KEY}',
    });
  });

  it('of 100,000 values of an enum or 1,000 fields within each other three times is read in bounded time', ({
    folder,
  }) => {
    const values = Array.from({ length: 100_000 }, (_, at) => `v${at}`);
    const params = { kind: { required: true, schema: { type: 'string', enum: values } } };
    const text = serviceText({ listings: { things: { params, more: onePage } } });
    expect(outcomeOf(importText(folder, text, 'direct')).length).toBeLessThan(300);
    const wide = (inner: object) =>
      Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`p${at}`, { properties: inner }]));
    const file = join(folder, 'openapi.yaml');
    const schemas = { A: wide({}), B: { properties: wide({ a: {} }) } };
    const ref = { $ref: '#/components/schemas/B' };
    const nested = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`q${at}`, ref]));
    const items = { type: 'array', items: { type: 'object', properties: nested } };
    const schema = { properties: { ...nested, items } };
    const get = { responses: { 200: { content: { 'application/json': { schema } } } } };
    const root = {
      openapi: '3.0.0',
      info: { title: 'Wide' },
      components: { schemas },
      paths: { '/x': { get } },
    };
    writeFileSync(file, JSON.stringify(root));
    expect(plainService(readPlainFile(file), ['/x']).operations[0]?.metadata.size).toBeLessThanOrEqual(1_000);
  });
});
