import { allSampleSinks } from './all-sample-sinks.ts';
import { sampleSinks } from './sample-sinks.ts';

/* Before all tests of a project: what they store into SQLite goes to PostgreSQL instead. */

Object.assign(sampleSinks, { sqlite: allSampleSinks.postgres });
