import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { importManifest } from '../../../src/definitions/import/import-manifest.ts';
import { parseExpression } from '../../../src/definitions/import/expressions.ts';
import { readManifest } from '../../../src/definitions/import/manifest-file.ts';
import { it } from '../../support/it.ts';
import { convert, manifestIn, manifestText } from '../../support/import/manifest.ts';

describe('a hostile manifest', () => {
  it('runs no template: whatever calls things is refused at once', ({ folder }) => {
    const templates = [
      "{{ ''.__class__.__mro__ }}",
      '{{ config.constructor.constructor }}',
      "{{ config['__proto__'] }}",
      '{{ range(10 ** 9) | list }}',
      "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
      '{% for i in range(1000000000) %}x{% endfor %}',
      '{% set a = config %}{{ a }}',
      `{{ ${'('.repeat(3_000)} }}`,
      `{{ ${'not '.repeat(900)} config.a }}`,
      `{{ '${'a'.repeat(5_000)}' }}`,
      '{{ config.a',
    ];
    const begun = Date.now();
    for (const template of templates) {
      const { outcomes } = convert(
        folder,
        manifestText({
          things: { path: '/a', requester: `request_parameters: { a: ${JSON.stringify(template)} }` },
        }),
      );
      expect({ template, outcome: outcomes['things'] }).toMatchObject({
        template,
        outcome: expect.stringMatching(/^refused: .*line \d+\)$/) as string,
      });
    }
    expect(Date.now() - begun).toBeLessThan(20_000);
    expect(parseExpression("{{ config['x'] }}", {})).toEqual({ kind: 'path', root: 'config', steps: ['x'] });
  });

  it('refuses circles, references out of the file and bombs, with the line', ({ folder }) => {
    const withTop = (top: string) => () =>
      importManifest(manifestIn(folder, manifestText({ things: {} }, { top })));
    expect(withTop("a: { b: { $ref: '#/a' } }")).toThrow(/:\d+: a\.b.*circle/);
    expect(withTop("a: '#/b'\nb: '#/a'")).toThrow(/levels|circle/);
    expect(withTop('a: { $ref: "https://evil.example/x.yaml" }')).toThrow(/nothing is downloaded/);
    expect(withTop('a: { $ref: "#/nowhere" }')).toThrow(/there is no #\/nowhere/);
    const doubled = Array.from({ length: 30 }, (_, index) => `b${index + 1}: ['#/b${index}', '#/b${index}']`);
    expect(withTop(['b0: [1, 2]', ...doubled].join('\n'))).toThrow(/values with all references written out/);
    const aliases = Array.from(
      { length: 30 },
      (_, index) => `c${index + 1}: &c${index + 1} [*c${index}, *c${index}]`,
    );
    expect(withTop(['c0: &c0 [1, 2]', ...aliases].join('\n'))).toThrow(/aliases/);
    expect(withTop(`d: ${'['.repeat(500)}${']'.repeat(500)}`)).toThrow(/levels|nesting/);
    expect(withTop(`e: ${'x'.repeat(6_000_000)}`)).toThrow(/expected at most 5242880 bytes/);
    expect(() => manifestIn(folder, 'type: DeclarativeSource')).not.toThrow();
    expect(() => manifestIn(folder, '[]')).toThrow(/expected a low-code manifest/);
  });

  it('sends credentials to no other host, by no plain text and in no path of its own', ({ folder }) => {
    const key = "{{ config['api_key'] }}";
    const { outcomes, definition } = convert(
      folder,
      manifestText({
        things: {},
        plain: { requester: "url_base: 'http://api.corner-shop.example'" },
        file: { requester: "url_base: 'file:///etc/passwd'" },
        inside: { requester: "url_base: 'https://169.254.169.254'" },
        named: { requester: "url_base: 'https://user@api.corner-shop.example'" },
        secret: { requester: `request_parameters: { q: "name:${key}, {{ now_utc() }}" }` },
        proto: { path: "/{{ config['__proto__'] }}/{{ record.constructor }}" },
      }),
    );
    expect(outcomes['things']).toBe('converted');
    const refused = Object.entries(outcomes).filter(([name]) => name !== 'things');
    for (const [name, outcome] of refused) {
      expect({ name, outcome }).toMatchObject({
        outcome: expect.stringMatching(/^refused: .*line \d+\)$/) as string,
      });
    }
    expect(definition).not.toMatch(/169\.254|passwd|user@/);
  });

  it('reads no path above that of the service, and names its file itself', ({ folder }) => {
    const text = manifestText({
      things: {},
      above: { path: '/../../admin' },
      below: { path: '/%2e%2e/admin' },
    }).replace('type: object, required', "title: '../../../etc/cron', type: object, required");
    const file = join(folder, 'manifest.yaml');
    writeFileSync(file, text);
    const { definition, outcomes } = importManifest(readManifest(file));
    expect(definition?.name).toBe('etc-cron');
    expect([...outcomes].map(([name, { kind }]) => [name, kind])).toEqual([
      ['things', 'converted'],
      ['above', 'refused'],
      ['below', 'refused'],
    ]);
  });

  it('lets parents form no circle', ({ folder }) => {
    const router = (name: string): string =>
      `partition_router: { type: SubstreamPartitionRouter, parent_stream_configs: [{ type: ParentStreamConfig, parent_key: id, partition_field: p, stream: { type: DeclarativeStream, name: ${name} } }] }`;
    const { outcomes } = convert(
      folder,
      manifestText({ a: { path: '/a/{{ stream_slice.p }}', retriever: router('b') } }),
    );
    expect(outcomes['a']).toMatch(/^refused: its parent b cannot be read/);
  });

  it('writes names and texts of the file as data only', ({ folder }) => {
    const { data, definition } = convert(
      folder,
      manifestText(
        {
          things: { fields: '"id": { type: string }, "a\\nb: c": { type: string }, "__x": { type: string }' },
        },
        {
          spec: 'api_key: { type: string, title: "a\\n# TODO b", airbyte_secret: true }, "x y": { type: string }',
        },
      ),
    );
    expect(data['entities']).toMatchObject({ things: { key: ['id'] } });
    expect(definition.split('\n').filter((line) => /^\s*# TODO/.test(line))).toEqual([]);
  });
});
