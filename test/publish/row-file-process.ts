import { openRowFileWriters } from '../../src/publish/row-files.ts';
import { filesIn, thing } from '../support/publish/write-row-files.ts';

/** A program that has begun a Parquet file in the folder that is its argument, says so, and waits. */
const writers = openRowFileWriters();
const files = await writers.open(filesIn(process.argv[2] ?? '', 'parquet'));
await files.write([thing(1)]);
process.send?.('begun');
