import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { openMcpClient } from '../support/mcp-client.ts';
import { runCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

const questions = [
  ['What do you have, and how old is it?', 'list_entities', {}],
  [
    'Which campaigns went out last, and to how many people?',
    'search',
    {
      entity: 'newsletter/campaigns',
      filter: { eq: { status: 'sent' } },
      sort: 'send_time:desc',
      limit: 3,
      fields: ['send_time', 'settings.subject_line', 'emails_sent'],
    },
  ],
] as const;

// `TEST_LONG=1 npx vitest run test/mcp/transcript.test.ts --update` writes it again.
it.skipIf(!isLong)(
  'answers two questions over the data of the demo as docs/examples/agents.md shows',
  async ({ folder }) => {
    expect((await runCli(['demo', '--directory', folder], { cwd: folder })).code).toBe(0);
    await using mcp = await openMcpClient({ config: `${folder}/connector-sync.yaml`, env: {} });
    const parts: string[] = [];
    for (const [question, tool, given] of questions) {
      const answer = JSON.stringify(await mcp.call(tool, given), null, 2);
      parts.push(`## ${question}`, '', `\`${tool}\``, '', fenced(JSON.stringify(given, null, 2)), '');
      parts.push(fenced(sameEachTime(answer)), '');
    }
    const intro = [
      '# Two questions over the data of the demo',
      '',
      'What an agent asks [`connector-sync mcp`](../guides/agents.md), and what it gets. Made by a test.',
      '',
    ];
    await expect([...intro, ...parts].join('\n')).toMatchFileSnapshot('../../docs/examples/agents.md');
  },
  120_000,
);

function fenced(text: string): string {
  return `\`\`\`text\n${text}\n\`\`\``;
}

/** Times and numbers of this run, and what a page is sealed with. */
function sameEachTime(text: string): string {
  return text
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '2026-03-01T08:00:00.000Z')
    .replaceAll(/"(seq|since)": \d+/g, '"$1": 48000')
    .replaceAll(/"cursor": "[^"]+"/g, '"cursor": "WyJy..."');
}
