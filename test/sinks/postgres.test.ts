import { describeSink } from '../contracts/sink-contract.ts';
import { postgresSinkKind } from '../contracts/postgres-sink-kind.ts';

describeSink('PostgreSQL', await postgresSinkKind());
