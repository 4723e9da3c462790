"""Unused names of the product that vulture must accept: each line counts as a use, each has a reason.

`make check` fails for code that only tests call.
"""

# ruff: noqa: B018, F821

# Fields of files that people and programs read.
_.flips  # ablation.csv
_.rejected  # ablation.csv
_.exploration  # metrics.jsonl
_.currency  # bill.json
_.prices_date
_.storage_class
_.env_steps_per_second  # summary.json
_.dead_letters  # of a deployment
_.gpu  # plan.json

# `FunctionSpec.tool` finds them by name.
adapter_files
task_base
transcripts

# Names that libraries call or read.
__dir__  # dir(marless), completion in notebooks
_.transient  # rich.live.Live
_._repr_html_  # IPython, at the end of a cell
_._repr_png_
_._repr_mimebundle_
_._print_message  # argparse.ArgumentParser
_.buffer  # sys.stdout
_._prompter  # botocore.credentials.AssumeRoleProvider
_.writeable  # numpy.ndarray.flags
_.encode_special_tokens  # tokenizers.Tokenizer
_.post_processor
_.render_mode  # PettingZoo
_.colors  # OpenSpiel, options of Hanabi
_.ranks
_.hand_size
_.max_information_tokens
_.max_life_tokens
_.observation_type
_.protocol_version  # http.server and wsgiref
_.disable_nagle_algorithm
_.wbufsize
_.run_wsgi
_.close_connection
_.log_request
_.compress_type  # zipfile.ZipInfo
_.create_system
_.external_attr
_.fmt  # botocore.exceptions.BotoCoreError
__getattr__  # Python
_._all_handles  # magent2
_.motion_planner  # overcooked_ai_py
_.min_cost_to_feature
with_argmin

# Attributes of modules that registries and entry points name.
HANABI
FORAGING
CROWDS
ROBOTS
SUBSTRATES
KITCHENS
WAREHOUSES
BATTLES
PLANES
IPPO
MAPPO
HAPPO
IQL
VDN
QMIX
PQN
QPLEX
IDDPG
MADDPG
ISAC
MASAC
BC
GRPO
LOGGER

# Names in annotations that are strings.
Axes
DataFrame
StartResponse
WSGIApplication

# Methods of settings, which users call.
_.from_toml
_.to_toml

# Members of environments for direct use.
_.snapshot
_.restore

# Options of torch and of ONNX Runtime's sessions, which their own code reads.
deterministic.fill_uninitialized_memory
_.allow_tf32
options.intra_op_num_threads
options.inter_op_num_threads
options.use_deterministic_compute
options.log_severity_level

# The font of a picture's canvas, which Pillow reads.
_.font

# The class of responses, which http.client makes.
_.response_class

# Editors read it from a string, as the module only has a stub.
RunKeys

# Attributes of the web server, of SQLite and of Starlette.
_.should_exit
_.row_factory
_.began_at  # a column, shown by its name
_.redirect_slashes

# Fields of the answers of a lab's server.
_.slot_seconds_a_day
_.dollars_a_day
_.cap_dollars
