"""Options of a training that nothing else here judges, and that are not fairseq's defaults."""

from __future__ import annotations

from collections.abc import Collection, Mapping

# Places, devices, logs, checkpoints and validation, and what repeats another option
WITHOUT_INFLUENCE = set(
    """
    aim_repo aim_run_hash all_gather_list_size amp_batch_retries amp_init_scale amp_scale_window
    arch average_sync azureml_logging batch_size_valid beam best_checkpoint_metric block_lr
    block_momentum bpe broadcast_buffers bucket_cap_mb checkpoint_activations
    checkpoint_shard_count checkpoint_suffix combine_valid_subsets constrained continue_once cpu
    cpu_offload data data_buffer_size dataset_impl ddp_backend ddp_comm_hook debug_param_names
    decoder_input_dim decoder_output_dim device_id disable_validation distributed_backend
    distributed_init_method distributed_no_spawn distributed_num_procs distributed_port
    distributed_rank empty_cache_freq eos eval_bleu eval_bleu_args eval_bleu_detok
    eval_bleu_detok_args eval_bleu_print_samples eval_bleu_remove_bpe eval_f1 eval_tokenized_bleu
    fast_stat_sync find_unused_parameters fix_batches_to_gpus fixed_validation_seed
    fp16_adam_stats fp16_init_scale fp16_no_flatten_grads fp16_scale_tolerance fp16_scale_window
    fp32_reduce_scatter gen_subset global_sync_iter gradient_as_bucket_view heartbeat_timeout
    ignore_unused_valid_subsets keep_best_checkpoints keep_interval_updates
    keep_interval_updates_pattern keep_last_epochs lenpen load_alignments
    load_checkpoint_on_all_dp_ranks localsgd_frequency log_file log_format log_interval
    match_source_len max_len_a max_len_b max_sentences_valid
    max_tokens_valid max_valid_steps maximize_best_checkpoint_metric memory_efficient_bf16
    memory_efficient_fp16 min_len min_loss_scale min_params_to_wrap model_overrides
    model_parallel_size nbest no_early_stop no_epoch_checkpoints no_last_checkpoints
    no_progress_bar no_reshard_after_forward no_save no_save_optimizer_state no_seed_provided
    not_fsdp_flatten_parameters nprocs_per_node num_batch_buckets num_shards num_workers
    offload_activations on_cpu_convert_precision pad path pipeline_checkpoint plasma_path
    post_process profile quiet report_accuracy required_batch_size_multiple
    required_seq_len_multiple reset_logging restore_file results_path save_dir save_interval
    save_interval_updates scoring search_precision seed skip_invalid_size_inputs_valid_test
    skip_remainder_batch slowmo_base_algorithm source_lang stop_early stop_time_hours
    suppress_crashes target_lang task tensorboard_logdir threshold_loss_scale tokenizer tpu
    train_subset unk unnormalized use_plasma_view user_dir valid_subset validate_after_updates
    validate_interval validate_interval_updates wandb_project warmup_iterations
    write_checkpoints_asynchronously zero_sharding
    """.split()  # noqa: SIM905
)
SWITCHED_OFF = (None, False, 0, -1, "", "{}", [], "none")
DEFAULTS = {  # of fairseq 0.12.3.1, where the default is not off
    "left_pad_source": True,
    "max_source_positions": 1024,
    "max_target_positions": 1024,
    "ema_decay": 0.9999,
    "ema_update_freq": 1,
    "quant_noise_pq_block_size": 8,
    "warmup_init_lr": 1e-7,  # a start that is nearly 0, as Equation 3's
}


def other_options(options: Mapping[str, object], judged: Collection[str]) -> dict[str, object]:
    """Return the options that are neither judged nor without influence nor fairseq's defaults."""
    return {
        name: value
        for name, value in options.items()
        if name not in WITHOUT_INFLUENCE
        and name not in judged
        and value not in SWITCHED_OFF
        and value != DEFAULTS.get(name)
    }
