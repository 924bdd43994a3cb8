import path from 'node:path';
import { describe, expect } from 'vitest';
import { parseSize } from '../../src/settings/texts.ts';
import type { DownloadSettings } from '../../src/settings/settings.ts';
import { goodConfig, it, type ConfigFolder } from '../support/settings/config-folder.ts';

let folder: ConfigFolder;
it.beforeEach(({ configs }) => {
  folder = configs;
});

const library = `${goodConfig}  library:
    definition: document-library
    id: c-2
    sink: warehouse
`;
const withDownloads = (text: string, more = ''): string => `${library}${more}    downloads: ${text}\n`;
const downloadsOf = (config: string): DownloadSettings | null | undefined =>
  [...folder.load(config).connectors.values()].find(({ name }) => name === 'library')?.downloads;

describe('downloads', () => {
  it('are none by default, and of all entities with files where only a directory is configured', () => {
    expect(downloadsOf(library)).toBeNull();
    expect(downloadsOf(withDownloads('{ directory: ./files }'))).toEqual({
      directory: path.join(folder.path, 'files'),
      entities: ['attachments'],
      maxBytes: 1_000_000_000,
    });
  });

  it('are shown by config show as they are written', () => {
    const shown = folder.view(
      withDownloads('{ directory: /srv/files, entities: [attachments], maxBytes: 20MiB }'),
    );
    expect(shown).toMatchObject({
      connectors: {
        library: {
          downloads: { directory: '/srv/files', entities: ['attachments'], maxBytes: '20MiB' },
        },
      },
    });
    expect(shown).not.toHaveProperty('connectors.newsletter.downloads');
  });

  it('of two connectors may share a directory: each has its own folder there', () => {
    const second = '  other:\n    definition: document-library\n    id: c-3\n    sink: warehouse\n';
    const downloads = '    downloads: { directory: ./files }\n';
    expect(folder.problems(`${library}${downloads}${second}${downloads}`)).toEqual([]);
  });

  it.each([
    [
      '{ directory: ./warehouse.db }',
      '',
      'library.downloads.directory: the sink warehouse stores its records there',
    ],
    ['{}', '', 'library.downloads.directory: is missing'],
    ['{ directory: ./files, entities: [] }', '', 'library.downloads.entities: '],
    [
      '{ directory: ./files, entities: [attachment] }',
      '',
      'library.downloads.entities.0: no such entity in document-library: "attachment"; did you mean "attachments"?',
    ],
    [
      '{ directory: ./files, entities: [folders] }',
      '',
      'library.downloads.entities.0: folders has no files: expected one of attachments',
    ],
    ['{ directory: ./files, entities: [attachments, attachments] }', '', 'attachments is named twice'],
    [
      '{ directory: ./files, entities: [attachments] }',
      '    exclude: [attachments]\n',
      'library.downloads.entities.0: attachments is not read',
    ],
    [
      '{ directory: ./files }',
      '    exclude: [attachments]\n',
      'library.downloads: none of the entities that have files (attachments) is read',
    ],
    [
      '{ directory: ./files, maxBytes: 1 potato }',
      '',
      'library.downloads.maxBytes: expected bytes, or a size',
    ],
    ['{ directory: ./files, maxBytes: 0 }', '', 'library.downloads.maxBytes: '],
  ])('refuse %s %s', (downloads, more, problem) => {
    const problems = folder.problems(withDownloads(downloads, more));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(problem);
  });

  it('report every mistake at once, also of a connector type without files', () => {
    const config = `${goodConfig}    downloads: { directory: ./warehouse.db, entities: [lists, nothing] }\n`;
    expect(folder.problems(config)).toHaveLength(3);
    expect(folder.problems(`${goodConfig}    downloads: { directory: ./files }\n`)).toEqual([
      expect.stringContaining('no entity of email-marketing has files; leave downloads out'),
    ]);
  });
});

describe('a size', () => {
  it.each([
    ['1GB', 1_000_000_000],
    ['1.5 MB', 1_500_000],
    ['64MiB', 67_108_864],
    ['10B', 10],
    ['0MB', null],
    ['1gb', null],
    ['GB', null],
    ['-1MB', null],
    ['1e3MB', null],
    ['999999999999TB', null],
    ['1000', null],
  ])('%s is %s bytes', (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
  });
});
