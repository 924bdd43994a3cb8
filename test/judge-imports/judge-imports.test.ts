import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { isLong, startSeed } from '../support/trials.ts';
import { judgeFile } from './judge-file.ts';
import { token } from './paging-kinds.ts';
import { parcelDesk } from './parcel-desk.ts';
import { trials } from './trial.ts';

const file = fileURLToPath(new URL('../fixtures/judge-imports/parcel-desk.yaml', import.meta.url));
const seed = startSeed();

it(`reads an imported service in full: at once, killed, with shorter pages, while rows move (seed ${seed})`, async ({
  folder,
}) => {
  const judged = await judgeFile({ file, vendor: parcelDesk, mode: 'direct', trials, seed, folder });
  expect(judged).toEqual({
    equal: 6,
    converted: 6,
    isPassed: true,
    trials: trials.map((trial) => ({ trial, failed: [], claimed: expect.any(Number) as number })),
    notes: [],
  });
});

it(`reads it in full through an API (seed ${seed})`, async ({ folder }) => {
  const tried = isLong ? trials : (['plain'] as const);
  const judged = await judgeFile({ file, vendor: parcelDesk, mode: 'hosted', trials: tried, seed, folder });
  expect(judged).toMatchObject({ equal: 6, converted: 6, isPassed: true });
});

it('finds the records that are missing where a service pages, and its file says that it does not', async ({
  folder,
}) => {
  const stamps = {
    ...parcelDesk.entities['stamps'],
    pages: token({ send: 'c', told: 'c', size: { usual: 5 } }),
  };
  const vendor = { ...parcelDesk, entities: { ...parcelDesk.entities, stamps } };
  const judged = await judgeFile({ file, vendor, mode: 'direct', trials: ['plain'], seed, folder });
  expect(judged).toMatchObject({ equal: 5, converted: 6, isPassed: false });
  expect(judged.trials[0]?.failed).toEqual([['stamps', expect.stringContaining('"lost":8')]]);
});
