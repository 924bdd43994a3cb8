// Runs one update of the built program and tells of each transaction, until it is done or killed.
import { once } from 'node:events';
import { updateSearchIndex } from '../../../src/search/index/update-search-index.ts';

const [{ file, target }] = await once(process, 'message');
const { signal } = new AbortController();
await updateSearchIndex(file, target, { signal, onProgress: (rows) => void process.send({ rows }) });
process.disconnect();
